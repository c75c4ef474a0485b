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

/// Gives some ranges of a random problem gaps, and some others, or the same,
/// fixed offsets below `maxOffset` at which none of these meet.
inline void addGapsAndOffsets(std::mt19937_64 &random,
                              std::vector<LiveRange> &ranges,
                              int64_t maxOffset) {
  for (LiveRange &range : ranges) {
    int64_t length = range.upper - range.lower;
    for (int64_t end = 0; length > 0 && pick(random, 0, 1) == 0;) {
      int64_t begin = end + pick(random, 0, length);
      end = begin + pick(random, 1, length);
      if (end > length)
        break;
      range.gaps.push_back({range.lower + begin, range.lower + end});
    }
    if (pick(random, 0, 2) > 0)
      continue;
    range.fixedOffset =
        pick(random, 0, maxOffset) / range.alignment * range.alignment;
    if (checkRanges(ranges))
      range.fixedOffset.reset();
  }
}

inline bool isAlive(const LiveRange &range, int64_t time) {
  bool alive = range.lower <= time && time < range.upper;
  for (TimeSpan gap : range.gaps)
    alive &= time < gap.lower || gap.upper <= time;
  return alive;
}

/// Whether both are alive at one time, looked for one by one.
inline bool meet(const LiveRange &a, const LiveRange &b) {
  int64_t end = std::min(a.upper, b.upper);
  for (int64_t time = std::max(a.lower, b.lower); time < end; ++time)
    if (isAlive(a, time) && isAlive(b, time))
      return true;
  return false;
}

/// The least arena: some order of putting each buffer into the first place that
/// those before it and the fixed ones leave gives it.
class LeastArena {
public:
  explicit LeastArena(const std::vector<LiveRange> &ranges)
      : ranges(ranges), offsets(ranges.size(), 0), meets(ranges.size()) {
    for (size_t i = 0; i < ranges.size(); ++i)
      for (const LiveRange &other : ranges)
        meets[i].push_back(meet(ranges[i], other));
  }

  int64_t find() {
    std::vector<size_t> placed, rest;
    int64_t arena = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].size == 0 || !meets[i][i])
        continue;
      if (!ranges[i].fixedOffset) {
        rest.push_back(i);
        continue;
      }
      placed.push_back(i);
      offsets[i] = *ranges[i].fixedOffset;
      arena = std::max(arena, endOf(i));
    }
    tryOrders(placed, rest, arena);
    return least;
  }

private:
  int64_t endOf(size_t i) const { return offsets[i] + paddedSize(ranges[i]); }

  void tryOrders(std::vector<size_t> &placed, std::vector<size_t> &rest,
                 int64_t arena) {
    if (arena >= least)
      return;
    if (rest.empty()) {
      least = arena;
      return;
    }
    for (size_t k = 0; k < rest.size(); ++k) {
      size_t i = rest[k];
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(k));
      putFirst(i, placed);
      placed.push_back(i);
      tryOrders(placed, rest, std::max(arena, endOf(i)));
      placed.pop_back();
      rest.insert(rest.begin() + static_cast<ptrdiff_t>(k), i);
    }
  }

  void putFirst(size_t i, const std::vector<size_t> &placed) {
    int64_t alignment = ranges[i].alignment;
    offsets[i] = 0;
    for (size_t clear = 0; clear < placed.size();) {
      size_t other = placed[clear++];
      if (!meets[i][other] || offsets[other] >= endOf(i) ||
          endOf(other) <= offsets[i])
        continue;
      offsets[i] = (endOf(other) + alignment - 1) / alignment * alignment;
      clear = 0;
    }
  }

  const std::vector<LiveRange> &ranges;
  std::vector<int64_t> offsets;
  std::vector<std::vector<char>> meets;
  int64_t least = std::numeric_limits<int64_t>::max();
};

inline int64_t leastArena(const std::vector<LiveRange> &ranges) {
  return LeastArena(ranges).find();
}

/// Whether two buffers are alive at one time and share a byte, by comparing all
/// pairs: slower than validate(), and nothing in common with it.
inline bool anyOverlap(const std::vector<LiveRange> &ranges,
                       const std::vector<int64_t> &offsets) {
  for (size_t i = 0; i < ranges.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::max(offsets[i], offsets[j]) <
              std::min(offsets[i] + paddedSize(ranges[i]),
                       offsets[j] + paddedSize(ranges[j])) &&
          meet(ranges[i], ranges[j]))
        return true;
  return false;
}

} // namespace optimus_planning

#endif // OPTIMUS_UNITTESTS_MEMORYPLANNING_RANDOMRANGES_H
