//===- RandomRanges.h - Random problems and their optimum ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_MEMORYPLANNING_RANDOMRANGES_H
#define OPTIMUS_UNITTESTS_MEMORYPLANNING_RANDOMRANGES_H

#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace optimus_planning {

/// A whole number in [low, high]; the standard distributions differ between
/// libraries.
inline int64_t pick(std::mt19937_64 &random, int64_t low, int64_t high) {
  return low +
         static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

inline std::vector<LiveRange> randomRanges(std::mt19937_64 &random,
                                           int64_t count, int64_t times,
                                           int64_t maxSize,
                                           bool mixedAlignments) {
  std::vector<LiveRange> ranges;
  for (int64_t id = 0; id < count; ++id) {
    LiveRange range;
    range.id = id;
    range.lower = pick(random, 0, times - 1);
    range.upper = pick(random, range.lower, times);
    range.size = pick(random, 0, maxSize);
    range.alignment = mixedAlignments ? int64_t{1} << pick(random, 0, 4) : 1;
    ranges.push_back(range);
  }
  return ranges;
}

/// The least arena: some order of placing each buffer as low as it can go over
/// the ones before it gives it.
inline int64_t leastArena(const std::vector<LiveRange> &ranges) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(ranges.size(), 0);
    int64_t arena = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const LiveRange &range = ranges[order[i]];
      int64_t top = 0;
      for (size_t j = 0; j < i; ++j) {
        const LiveRange &below = ranges[order[j]];
        if (std::max(below.lower, range.lower) <
            std::min(below.upper, range.upper))
          top = std::max(top, offsets[order[j]] + paddedSize(below));
      }
      int64_t alignment = range.alignment;
      offsets[order[i]] = (top + alignment - 1) / alignment * alignment;
      // Buffers that are never alive, or empty, take no space.
      if (range.lower < range.upper && range.size > 0)
        arena = std::max(arena, offsets[order[i]] + paddedSize(range));
    }
    least = std::min(least, arena);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

/// Whether two buffers are alive at one time and share a byte, by comparing all
/// pairs: slower than validate(), and nothing in common with it.
inline bool anyOverlap(const std::vector<LiveRange> &ranges,
                       const std::vector<int64_t> &offsets) {
  for (size_t i = 0; i < ranges.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::max(ranges[i].lower, ranges[j].lower) <
              std::min(ranges[i].upper, ranges[j].upper) &&
          std::max(offsets[i], offsets[j]) <
              std::min(offsets[i] + paddedSize(ranges[i]),
                       offsets[j] + paddedSize(ranges[j])))
        return true;
  return false;
}

} // namespace optimus_planning

#endif // OPTIMUS_UNITTESTS_MEMORYPLANNING_RANDOMRANGES_H
