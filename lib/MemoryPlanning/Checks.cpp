//===- Checks.cpp - What is wrong with ranges and plans ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Problem.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <unordered_set>

using namespace optimus_planning;

int64_t optimus_planning::paddedSize(const LiveRange &range) {
  return alignUp(range.size, range.alignment);
}

/// What is wrong with the gaps of a range, if anything.
static std::optional<std::string> checkGaps(const LiveRange &range) {
  int64_t end = range.lower;
  for (TimeSpan gap : range.gaps) {
    if (gap.lower >= gap.upper || gap.lower < end || gap.upper > range.upper)
      return "the gap " + std::to_string(gap.lower) + "-" +
             std::to_string(gap.upper) +
             " is out of order; expected gaps apart, from the first to the "
             "last, within " +
             std::to_string(range.lower) + "-" + std::to_string(range.upper);
    end = gap.upper;
  }
  return std::nullopt;
}

/// Says which two of the members are alive together and overlap, if any do.
static std::optional<std::string> findOverlap(std::span<const LiveRange> ranges,
                                              std::span<const int64_t> offsets,
                                              std::span<const size_t> members) {
  struct Stretch {
    TimeSpan time;
    size_t range;
  };
  std::vector<Stretch> byStart;
  for (size_t i : members)
    if (ranges[i].size > 0)
      for (TimeSpan span : aliveSpans(ranges[i]))
        byStart.push_back({span, i});
  // Sweep over time. The live buffers, by offset, are disjoint until one starts
  // that is not, and it then overlaps one of its two neighbours.
  std::stable_sort(byStart.begin(), byStart.end(),
                   [](const Stretch &a, const Stretch &b) {
                     return a.time.lower < b.time.lower;
                   });
  std::vector<Stretch> byEnd = byStart;
  std::stable_sort(byEnd.begin(), byEnd.end(),
                   [](const Stretch &a, const Stretch &b) {
                     return a.time.upper < b.time.upper;
                   });
  std::set<std::pair<int64_t, size_t>> live;
  auto nextEnd = byEnd.begin();
  for (const auto &[time, i] : byStart) {
    for (; nextEnd->time.upper <= time.lower; ++nextEnd)
      live.erase({offsets[nextEnd->range], nextEnd->range});
    auto here = live.insert({offsets[i], i}).first;
    auto overlaps = [&](size_t low, size_t high) {
      return offsets[low] + paddedSize(ranges[low]) > offsets[high];
    };
    std::optional<size_t> other;
    if (here != live.begin() && overlaps(std::prev(here)->second, i))
      other = std::prev(here)->second;
    else if (std::next(here) != live.end() &&
             overlaps(i, std::next(here)->second))
      other = std::next(here)->second;
    if (other) {
      auto describe = [&](size_t k) {
        return "buffer " + std::to_string(ranges[k].id) + " (bytes [" +
               std::to_string(offsets[k]) + ", " +
               std::to_string(offsets[k] + paddedSize(ranges[k])) +
               "), times [" + std::to_string(ranges[k].lower) + ", " +
               std::to_string(ranges[k].upper) + "))";
      };
      return describe(*other) + " and " + describe(i) + " overlap";
    }
  }
  return std::nullopt;
}

std::optional<std::string>
optimus_planning::checkRanges(std::span<const LiveRange> ranges) {
  // Offsets are sums of padded sizes and of gaps below an alignment. A quarter
  // of the 64-bit numbers leaves room for both.
  constexpr int64_t kMaxTotal = std::numeric_limits<int64_t>::max() / 4;
  int64_t total = 0;
  std::unordered_set<int64_t> ids;
  for (const LiveRange &range : ranges) {
    std::string buffer = "buffer " + std::to_string(range.id);
    if (!ids.insert(range.id).second)
      return buffer + ": the id is given twice; ids must be unique";
    if (range.upper < range.lower)
      return buffer + ": upper " + std::to_string(range.upper) +
             " is before lower " + std::to_string(range.lower) +
             "; expected lower <= upper";
    if (range.size < 0)
      return buffer + ": size " + std::to_string(range.size) +
             " is negative; expected a number of bytes";
    if (range.alignment <= 0 ||
        !std::has_single_bit(static_cast<uint64_t>(range.alignment)))
      return buffer + ": alignment " + std::to_string(range.alignment) +
             " is not a power of two";
    if (range.alignment > kMaxTotal || range.size > kMaxTotal - total ||
        range.alignment > kMaxTotal - total - range.size)
      return buffer +
             ": the sizes, alignments and fixed offsets up to here add up to "
             "more than " +
             std::to_string(kMaxTotal) + " bytes";
    total += range.size + range.alignment;
    if (std::optional<std::string> problem = checkGaps(range))
      return buffer + ": " + *problem;
    if (!range.fixedOffset)
      continue;
    int64_t offset = *range.fixedOffset;
    if (offset < 0 || offset % range.alignment != 0)
      return buffer + ": the fixed offset " + std::to_string(offset) +
             " is not a multiple of its alignment " +
             std::to_string(range.alignment);
    if (offset > kMaxTotal - total)
      return buffer + ": the fixed offset " + std::to_string(offset) +
             " is too large; expected at most " +
             std::to_string(kMaxTotal - total) + " with these sizes";
    total += offset;
  }
  std::vector<int64_t> offsets(ranges.size());
  std::vector<size_t> fixed;
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].fixedOffset) {
      offsets[i] = *ranges[i].fixedOffset;
      fixed.push_back(i);
    }
  if (std::optional<std::string> overlap = findOverlap(ranges, offsets, fixed))
    return *overlap + "; both have fixed offsets";
  return std::nullopt;
}

std::optional<std::string>
optimus_planning::validate(std::span<const LiveRange> ranges,
                           const Plan &plan) {
  if (plan.offsets.size() != ranges.size())
    return "the plan has " + std::to_string(plan.offsets.size()) +
           " offsets for " + std::to_string(ranges.size()) + " buffers";
  std::vector<size_t> members;
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t offset = plan.offsets[i];
    std::string buffer = "buffer " + std::to_string(ranges[i].id) +
                         " at offset " + std::to_string(offset);
    if (offset < 0)
      return buffer + ": the offset is negative";
    if (offset % ranges[i].alignment != 0)
      return buffer + ": not a multiple of its alignment " +
             std::to_string(ranges[i].alignment);
    if (ranges[i].fixedOffset && offset != *ranges[i].fixedOffset)
      return buffer + ": its fixed offset is " +
             std::to_string(*ranges[i].fixedOffset);
    int64_t padded = paddedSize(ranges[i]);
    if (padded == 0 || aliveSpans(ranges[i]).empty())
      continue;
    if (padded > plan.arenaBytes || offset > plan.arenaBytes - padded)
      return buffer + ": its " + std::to_string(padded) +
             " bytes pass the end of the arena of " +
             std::to_string(plan.arenaBytes) + " bytes";
    members.push_back(i);
  }
  return findOverlap(ranges, plan.offsets, members);
}
