//===- LiveRangeCsv.cpp - Live ranges and plans as CSV ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <ostream>
#include <unordered_map>

using namespace optimus_planning;

namespace {

struct Column {
  std::string_view name;
  int64_t LiveRange::*field;
  bool required;
};

constexpr std::array<Column, 5> kColumns{{
    {"id", &LiveRange::id, true},
    {"lower", &LiveRange::lower, true},
    {"upper", &LiveRange::upper, true},
    {"size", &LiveRange::size, true},
    {"alignment", &LiveRange::alignment, false},
}};

/// A cell of a line and where it starts, counted from 1.
struct Cell {
  std::string_view text;
  size_t column;
};

} // namespace

static std::vector<Cell> splitCells(std::string_view line) {
  std::vector<Cell> cells;
  size_t begin = 0;
  while (true) {
    size_t end = std::min(line.find(',', begin), line.size());
    std::string_view text = line.substr(begin, end - begin);
    size_t blanks = std::min(text.find_first_not_of(" \t"), text.size());
    text.remove_prefix(blanks);
    text = text.substr(0, text.find_last_not_of(" \t") + 1);
    cells.push_back({text, begin + blanks + 1});
    if (end == line.size())
      return cells;
    begin = end + 1;
  }
}

std::optional<std::string>
optimus_planning::readLiveRanges(std::istream &in, std::string_view name,
                                 std::vector<LiveRange> &ranges) {
  ranges.clear();
  size_t lineNumber = 0;
  auto error = [&](size_t column, const std::string &message) {
    return std::string(name) + ":" + std::to_string(lineNumber) + ":" +
           std::to_string(column) + ": " + message;
  };

  std::vector<const Column *> header;
  std::unordered_map<int64_t, size_t> lineOfId;
  std::string line;
  while (std::getline(in, line)) {
    ++lineNumber;
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos)
      continue;
    std::vector<Cell> cells = splitCells(line);

    if (header.empty()) {
      for (const Cell &cell : cells) {
        const Column *found = nullptr;
        for (const Column &column : kColumns)
          if (column.name == cell.text)
            found = &column;
        if (!found)
          return error(cell.column,
                       "unknown column '" + std::string(cell.text) +
                           "'; expected id, lower, upper, size and optionally "
                           "alignment");
        for (const Column *earlier : header)
          if (earlier == found)
            return error(cell.column, "column '" + std::string(cell.text) +
                                          "' is given twice");
        header.push_back(found);
      }
      for (const Column &column : kColumns) {
        bool present = false;
        for (const Column *given : header)
          present |= given == &column;
        if (column.required && !present)
          return error(1, "the header has no column '" +
                              std::string(column.name) +
                              "'; expected id,lower,upper,size[,alignment]");
      }
      continue;
    }

    if (cells.size() != header.size())
      return error(cells.size() > header.size() ? cells[header.size()].column
                                                : line.size() + 1,
                   "expected " + std::to_string(header.size()) +
                       " cells as in the header, found " +
                       std::to_string(cells.size()));
    LiveRange range;
    // Where the message about a field points.
    auto at = [&](int64_t LiveRange::*field) {
      for (size_t i = 0; i < header.size(); ++i)
        if (header[i]->field == field)
          return cells[i].column;
      return size_t{1};
    };
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string_view text = cells[i].text;
      int64_t value = 0;
      auto [end, code] =
          std::from_chars(text.data(), text.data() + text.size(), value);
      if (code == std::errc::result_out_of_range)
        return error(cells[i].column, std::string(header[i]->name) + " '" +
                                          std::string(text) +
                                          "' does not fit in 64 bits");
      if (code != std::errc() || end != text.data() + text.size())
        return error(cells[i].column, std::string(header[i]->name) + " '" +
                                          std::string(text) +
                                          "' is not an integer");
      range.*(header[i]->field) = value;
    }
    auto [earlier, isNew] = lineOfId.try_emplace(range.id, lineNumber);
    if (!isNew)
      return error(at(&LiveRange::id), "id " + std::to_string(range.id) +
                                           " was given on line " +
                                           std::to_string(earlier->second) +
                                           " already; ids must be unique");
    // One rule for what a range may be; here only the column is found.
    if (std::optional<std::string> problem = checkRanges({&range, 1})) {
      int64_t LiveRange::*culprit = range.upper < range.lower
                                        ? &LiveRange::upper
                                    : range.size < 0 ? &LiveRange::size
                                                     : &LiveRange::alignment;
      return error(at(culprit), *problem);
    }
    ranges.push_back(range);
  }
  if (in.bad())
    return error(1, "reading failed");
  if (header.empty()) {
    lineNumber = std::max<size_t>(lineNumber, 1);
    return error(1, "the file is empty; expected the header "
                    "id,lower,upper,size[,alignment]");
  }
  // What is left are sizes that overflow only together.
  if (std::optional<std::string> problem = checkRanges(ranges))
    return error(1, *problem);
  return std::nullopt;
}

void optimus_planning::writePlan(std::ostream &out,
                                 std::span<const LiveRange> ranges,
                                 const Plan &plan) {
  out << "id,lower,upper,size,alignment,offset\n";
  for (size_t i = 0; i < ranges.size(); ++i)
    out << ranges[i].id << ',' << ranges[i].lower << ',' << ranges[i].upper
        << ',' << ranges[i].size << ',' << ranges[i].alignment << ','
        << plan.offsets[i] << '\n';
}
