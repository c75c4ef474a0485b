//===- MemoryPlanner.h - Offsets for live ranges in one arena ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places buffers with known lifetimes into one arena: no two buffers alive at
// the same time share a byte. Knows nothing of the IR: live ranges in, offsets
// out. The same input gives the same plan on every machine unless a time limit
// is asked for.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MEMORYPLANNING_MEMORYPLANNER_H
#define OPTIMUS_MEMORYPLANNING_MEMORYPLANNER_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace optimus_planning {

/// The times t with lower <= t < upper.
struct TimeSpan {
  int64_t lower;
  int64_t upper;

  bool operator==(const TimeSpan &) const = default;
};

/// A buffer and the time it is alive.
struct LiveRange {
  /// A name for messages and for the caller; unique within one problem.
  int64_t id = 0;
  /// The buffer is alive at the times t with lower <= t < upper. Any unit:
  /// lengths of time only decide what is tried first. With lower == upper it is
  /// never alive: it conflicts with nothing, and its bytes need not lie in the
  /// arena.
  int64_t lower = 0;
  int64_t upper = 0;
  /// Bytes asked for, >= 0. In the arena the buffer takes `size` rounded up to
  /// a multiple of `alignment`, so its neighbour never shares its last line.
  int64_t size = 0;
  /// The offset is a multiple of this many bytes; a power of two.
  int64_t alignment = 64;
  /// Times within [lower, upper) at which it is not alive: what it holds is not
  /// read again, and the next thing is not yet written. Its bytes are others'
  /// then, and afterwards it lies where it lay. None is empty; each begins at
  /// or after the end of the one before.
  std::vector<TimeSpan> gaps = {};
  /// Where it lies, if that is not the planner's choice: a multiple of the
  /// alignment. No two such buffers may meet.
  std::optional<int64_t> fixedOffset = {};
};

/// The times at which it is alive: what its gaps leave, in order, none empty.
std::vector<TimeSpan> aliveSpans(const LiveRange &range);

/// `size` rounded up to `alignment`: the bytes the buffer takes in the arena.
int64_t paddedSize(const LiveRange &range);

/// What the planner aims for and how hard it works.
struct Options {
  /// Bytes the arena should fit in; then no smaller one is looked for. The plan
  /// may still be larger: compare Plan::arenaBytes.
  std::optional<int64_t> capacity;
  /// An arena of at most this multiple of the lower bound is good enough: the
  /// exact search runs only when the portfolio's arena is above it or above the
  /// capacity. With 1.0 the search goes on to an optimum.
  double goodEnough = 1.005;
  /// The exact search gives up after placing this many buffers, of the order of
  /// 100,000 a second (where a step is dear it counts for more). 0: no search.
  int64_t nodeLimit = 1'000'000;
  /// The local search, after the exact one, ends after placing this many
  /// buffers, of the order of 100,000 a second. The default is the node limit,
  /// or none where there is a time limit.
  std::optional<int64_t> moveLimit;
  /// An arena above this multiple of the lower bound is far from it: the local
  /// search goes on, down to that multiple, for up to `farMoveLimit` buffers in
  /// all, whatever they are worth.
  double far = 1.0;
  int64_t farMoveLimit = 0;
  /// What a node must be worth: beyond the first 20,000, a search for a good
  /// enough arena places one buffer for every so many bytes it could save, and
  /// the repair before it has a like limit. 0: all go on for a single byte.
  int64_t bytesPerNode = 0;
  /// Seconds before the searches end, counted from the end of the portfolio and
  /// repair (about half a second for 20,000 buffers). With a time limit the
  /// plan depends on the speed of the machine; the default is none.
  std::optional<double> timeout;
};

/// Where every buffer lies.
struct Plan {
  /// Byte offset of each range, in the order of the input.
  std::vector<int64_t> offsets;
  /// The largest offset + paddedSize.
  int64_t arenaBytes = 0;
  /// Of the problem, see lowerBound().
  int64_t lowerBound = 0;
  /// The method that decided the size of the arena: an order of the portfolio
  /// with its fit ("size/first-fit"), "search", or "ejection" for the local
  /// search.
  std::string order;
  /// Buffers the exact search placed, over all its attempts.
  int64_t searchNodes = 0;
  /// Buffers the local search placed.
  int64_t moves = 0;
  /// No plan has a smaller arena: it equals the lower bound, or the search has
  /// ruled out every smaller one.
  bool optimal = false;
};

/// The problem with the ranges as the caller gave them, if any: a negative
/// size, an upper before the lower, an alignment not a power of two, an id
/// given twice, sizes that overflow, gaps out of order, fixed offsets off the
/// alignment or with overlapping buffers. plan() and lowerBound() need ranges
/// that pass.
std::optional<std::string> checkRanges(std::span<const LiveRange> ranges);

/// The most bytes alive at one time, counted in padded sizes, or where the last
/// buffer with a fixed offset ends. No arena can be smaller.
int64_t lowerBound(std::span<const LiveRange> ranges);

/// Plans an arena. Ranges must pass checkRanges().
Plan plan(std::span<const LiveRange> ranges, const Options &options = {});

/// Buffers that cannot lie in one arena of some capacity together.
struct Conflict {
  /// Their indices in the input, rising.
  std::vector<size_t> members;
  /// Without any one of them the others fit. Otherwise that is not known of
  /// some: the search gave up on them.
  bool irreducible = true;
};

/// Why no plan fits in `capacity` bytes, where that is so and the lower bound
/// or the exact search, within the limits of the options, proves it.
std::optional<Conflict> findConflict(std::span<const LiveRange> ranges,
                                     int64_t capacity,
                                     const Options &options = {});

/// The first mistake found in a plan, if any: an offset missing, negative,
/// misaligned or not the fixed one, a buffer past the end of the arena, or two
/// buffers (named by id) that are alive together and overlap.
std::optional<std::string> validate(std::span<const LiveRange> ranges,
                                    const Plan &plan);

} // namespace optimus_planning

#endif // OPTIMUS_MEMORYPLANNING_MEMORYPLANNER_H
