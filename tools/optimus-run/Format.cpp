//===- Format.cpp - Numbers and tables for people -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Format.h"

#include "optimus-runtime/Status.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace optimus_run {

std::string format(const char *pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text(length, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string formatCount(int64_t count) {
  if (count < 100000)
    return std::to_string(count);
  double value = static_cast<double>(count);
  const char *const units[] = {"k", "M", "G", "T"};
  int unit = -1;
  do {
    value /= 1000;
    ++unit;
  } while (value >= 1000 && unit < 3);
  return format("%.3g %s", value, units[unit]);
}

std::string formatDuration(double seconds) {
  int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return format("%d:%02d:%02d", static_cast<int>(whole / 3600),
                  static_cast<int>(whole / 60 % 60),
                  static_cast<int>(whole % 60));
  return format("%d:%02d", static_cast<int>(whole / 60),
                static_cast<int>(whole % 60));
}

Table::Table(std::vector<std::string> header, std::vector<int> leftColumns)
    : left(header.size()) {
  left[0] = true;
  for (int column : leftColumns)
    left[column] = true;
  rows.push_back(std::move(header));
}

void Table::addRow(std::vector<std::string> cells) {
  rows.push_back(std::move(cells));
}

void Table::print(std::ostream &out) const {
  std::vector<std::size_t> widths(left.size());
  for (const std::vector<std::string> &row : rows)
    for (std::size_t column = 0; column != row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (std::size_t column = 0; column != row.size(); ++column) {
      std::string gap(widths[column] - row[column].size(), ' ');
      line += optrt::concat("  ", left[column] ? "" : gap, row[column],
                            left[column] ? gap : "");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

} // namespace optimus_run
