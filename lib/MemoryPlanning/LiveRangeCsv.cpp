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

/// Why a cell cannot be read, without the column's name, or nothing.
using Mistake = std::optional<std::string>;

struct Column {
  std::string_view name;
  Mistake (*read)(std::string_view text, LiveRange &range);
  bool required;
};

Mistake readInteger(std::string_view text, int64_t &value) {
  const char *end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::result_out_of_range)
    return "does not fit in 64 bits";
  if (code != std::errc() || stop != end)
    return "is not an integer";
  return std::nullopt;
}

template <int64_t LiveRange::*field>
Mistake readField(std::string_view text, LiveRange &range) {
  return readInteger(text, range.*field);
}

/// An empty cell leaves the offset to the planner.
Mistake readOffset(std::string_view text, LiveRange &range) {
  if (text.empty())
    return std::nullopt;
  return readInteger(text, range.fixedOffset.emplace());
}

/// Gaps as LOWER-UPPER, with blanks between them.
Mistake readGaps(std::string_view text, LiveRange &range) {
  while (!text.empty()) {
    size_t length = std::min(text.find_first_of(" \t"), text.size());
    std::string_view gap = text.substr(0, length);
    text.remove_prefix(
        std::min(text.find_first_not_of(" \t", length), text.size()));
    // A minus sign stands before the first digit.
    size_t dash = gap.find('-', 1);
    TimeSpan span{};
    if (dash == std::string_view::npos ||
        readInteger(gap.substr(0, dash), span.lower) ||
        readInteger(gap.substr(dash + 1), span.upper))
      return "is no list of gaps; expected LOWER-UPPER of each with blanks "
             "between them, without a window of bytes";
    range.gaps.push_back(span);
  }
  return std::nullopt;
}

constexpr std::array<Column, 7> kColumns{{
    {"id", readField<&LiveRange::id>, true},
    {"lower", readField<&LiveRange::lower>, true},
    {"upper", readField<&LiveRange::upper>, true},
    {"size", readField<&LiveRange::size>, true},
    {"alignment", readField<&LiveRange::alignment>, false},
    {"gaps", readGaps, false},
    {"offset", readOffset, false},
}};

/// The column to which a range's mistake is due.
std::string_view culpritOf(const LiveRange &range) {
  if (range.upper < range.lower)
    return "upper";
  if (range.size < 0)
    return "size";
  LiveRange bare{range.id, range.lower, range.upper, range.size,
                 range.alignment};
  if (checkRanges({&bare, 1}))
    return "alignment";
  bare.gaps = range.gaps;
  return checkRanges({&bare, 1}) ? "gaps" : "offset";
}

constexpr std::string_view kHeader =
    "id,lower,upper,size[,alignment][,gaps][,offset]";

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
                           "alignment, gaps and offset");
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
                              std::string(column.name) + "'; expected " +
                              std::string(kHeader));
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
    auto at = [&](std::string_view column) {
      for (size_t i = 0; i < header.size(); ++i)
        if (header[i]->name == column)
          return cells[i].column;
      return size_t{1};
    };
    for (size_t i = 0; i < cells.size(); ++i) {
      if (Mistake problem = header[i]->read(cells[i].text, range))
        return error(cells[i].column, std::string(header[i]->name) + " '" +
                                          std::string(cells[i].text) + "' " +
                                          *problem);
    }
    auto [earlier, isNew] = lineOfId.try_emplace(range.id, lineNumber);
    if (!isNew)
      return error(at("id"), "id " + std::to_string(range.id) +
                                 " was given on line " +
                                 std::to_string(earlier->second) +
                                 " already; ids must be unique");
    // One rule for what a range may be; here only the column is found.
    if (Mistake problem = checkRanges({&range, 1}))
      return error(at(culpritOf(range)), *problem);
    ranges.push_back(range);
  }
  if (in.bad())
    return error(1, "reading failed");
  if (header.empty()) {
    lineNumber = std::max<size_t>(lineNumber, 1);
    return error(1, "the file is empty; expected the header " +
                        std::string(kHeader));
  }
  // What is left is wrong only together: sizes, and fixed offsets.
  if (Mistake problem = checkRanges(ranges))
    return error(1, *problem);
  return std::nullopt;
}

static void writeRanges(std::ostream &out, std::span<const LiveRange> ranges,
                        std::span<const std::optional<int64_t>> offsets) {
  bool anyGaps =
      std::any_of(ranges.begin(), ranges.end(),
                  [](const LiveRange &range) { return !range.gaps.empty(); });
  bool anyOffsets = std::any_of(offsets.begin(), offsets.end(),
                                [](auto &offset) { return offset.has_value(); });
  out << "id,lower,upper,size,alignment" << (anyGaps ? ",gaps" : "")
      << (anyOffsets ? ",offset" : "") << '\n';
  for (size_t i = 0; i < ranges.size(); ++i) {
    const LiveRange &range = ranges[i];
    out << range.id << ',' << range.lower << ',' << range.upper << ','
        << range.size << ',' << range.alignment << (anyGaps ? "," : "");
    for (TimeSpan gap : range.gaps)
      out << (gap == range.gaps.front() ? "" : " ") << gap.lower << '-'
          << gap.upper;
    if (anyOffsets)
      out << ',';
    if (offsets[i])
      out << *offsets[i];
    out << '\n';
  }
}

void optimus_planning::writeLiveRanges(std::ostream &out,
                                       std::span<const LiveRange> ranges) {
  std::vector<std::optional<int64_t>> offsets;
  for (const LiveRange &range : ranges)
    offsets.push_back(range.fixedOffset);
  writeRanges(out, ranges, offsets);
}

void optimus_planning::writePlan(std::ostream &out,
                                 std::span<const LiveRange> ranges,
                                 const Plan &plan) {
  writeRanges(out, ranges,
              std::vector<std::optional<int64_t>>(plan.offsets.begin(),
                                                  plan.offsets.end()));
}
