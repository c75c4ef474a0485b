//===- PeakFirst.h - The fullest times before all others --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of many buffers few are alive while nearly all of the arena is in use. Those
// alone are a problem small enough for a search; the others find room around
// them, since less is alive at their times.
//
//   time      0  1  2  3  4        c and d are alive at the peak: placed first
//   a  3     [a]                   they lie without a gap, and a, b and e lie
//   b  4        [b ]               wherever they leave room.
//   c  5        [c       ]
//   d  5           [d ]
//   e  4                 [e]
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_PEAKFIRST_H
#define OPTIMUS_LIB_MEMORYPLANNING_PEAKFIRST_H

#include "Portfolio.h"

namespace optimus_planning {

/// Places the buffers of a component that are alive when nearly all of its
/// lower bound is, without an exact search, then the others. Nothing where they
/// are most of the buffers, where some buffer has its place already, or where
/// the arena would not be below `limit`. Adds the moves of the local search to
/// `moves`.
std::optional<Placement> placePeakFirst(std::span<const LiveRange> ranges,
                                        const Component &component,
                                        const Options &options, int64_t limit,
                                        int64_t &moves);

/// Places the other buffers of a component around those with an offset; kFree
/// is none. Nothing where the arena would not be below `limit`.
std::optional<Placement> placeAround(std::span<const LiveRange> ranges,
                                     const Component &component,
                                     std::span<const int64_t> offsets,
                                     int64_t limit, const char *order);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_PEAKFIRST_H
