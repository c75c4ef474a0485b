//===- BothEnds.h - Long lives at the two ends of an arena ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two stacks grow towards each other, and all room is between them, in one
// piece. A buffer with a long life joins the stack with a top of a longer one,
// or of one that is shorter by least: so it is gone before the one below it.
//
//   upper                 [g    ]     Weights v and w, read again in the
//                 [f            ]     backward, die in reverse order: one
//          short  lives   between     stack. Gradients f and g, made when
//   w          [  w   ]               these die, outlive them: another, and
//   v      [      v         ]         none lies in a hole of the first.
//   time   0 1 2 3 4 5 6 7 8 9 10
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_BOTHENDS_H
#define OPTIMUS_LIB_MEMORYPLANNING_BOTHENDS_H

#include "Portfolio.h"

namespace optimus_planning {

/// Places all buffers of a component within `capacity` bytes: those alive for
/// long from both ends, then those alive when nearly all of the lower bound is,
/// by falling size, again and again, each time with what found no room further
/// in front; then the others. Nothing where some have found none in so many
/// `rounds`, or where some buffer has its place already.
std::optional<Placement> placeFromBothEnds(std::span<const LiveRange> ranges,
                                           const Component &component,
                                           int64_t capacity, int rounds);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_BOTHENDS_H
