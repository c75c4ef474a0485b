//===- Problem.h - Live ranges on a compressed time axis -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner's own form of its input: only the buffers that take space, with
// sections for times: stretches of time with the same set of live buffers.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_PROBLEM_H
#define OPTIMUS_LIB_MEMORYPLANNING_PROBLEM_H

#include "optimus/MemoryPlanning/MemoryPlanner.h"

namespace optimus_planning {

/// The sections [first, last), at least one.
struct SectionSpan {
  int32_t first;
  int32_t last;
};

/// A buffer that is first alive in section `first` and last before `last`; in
/// between it may have gaps.
struct Buffer {
  int32_t first;
  int32_t last;
  /// Padded, > 0.
  int64_t size;
  int64_t alignment;
  /// How long it is alive, in the caller's time.
  double duration;
  /// Its index in the caller's ranges.
  size_t range;
  /// Where it must lie; kFree: anywhere.
  int64_t fixedOffset;
  /// Of its component's spans, those in which it is alive.
  uint32_t spansBegin;
  uint32_t spansEnd;

  static constexpr int64_t kFree = -1;
  bool isFixed() const { return fixedOffset != kFree; }
  bool hasGaps() const { return spansEnd - spansBegin > 1; }
};

/// Buffers that hang together in time: each of the inner boundaries of its
/// sections lies between the first and the last section of some buffer. Sorted
/// by first section.
struct Component {
  std::vector<Buffer> buffers;
  std::vector<SectionSpan> spans;
  int32_t numSections = 0;
  int64_t lowerBound = 0;

  std::span<const SectionSpan> spansOf(const Buffer &buffer) const {
    return std::span<const SectionSpan>(spans).subspan(
        buffer.spansBegin, buffer.spansEnd - buffer.spansBegin);
  }

  /// Whether two buffers are alive at one time.
  bool meet(const Buffer &a, const Buffer &b) const {
    return a.first < b.last && b.first < a.last &&
           ((!a.hasGaps() && !b.hasGaps()) || spansMeet(a, b));
  }

private:
  bool spansMeet(const Buffer &a, const Buffer &b) const;
};

inline int64_t alignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// How long a buffer is alive, without its gaps; in floating point, as the
/// difference may pass 64 bits.
double durationOf(const LiveRange &range);

/// The padded bytes alive in each section.
std::vector<int64_t> sectionLoads(const Component &component);

/// Splits the ranges at the times at which nothing is alive; the parts can be
/// placed independently of each other. Largest lower bound first.
std::vector<Component> splitInTime(std::span<const LiveRange> ranges);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_PROBLEM_H
