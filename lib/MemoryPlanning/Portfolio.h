//===- Portfolio.h - Placing buffers one by one ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_PORTFOLIO_H
#define OPTIMUS_LIB_MEMORYPLANNING_PORTFOLIO_H

#include "Problem.h"

namespace optimus_planning {

/// Of so many an order takes a tenth of a second.
inline constexpr size_t kManyBuffers = 10'000;

/// Offsets for the buffers of a component, in its order.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t arenaBytes = 0;
  std::string order;
};

/// Places the buffers one by one in several orders, each with first fit and
/// with best fit, and keeps the smallest arena. Stops at the first arena of at
/// most `target` bytes, or when `work` (looks at a placed buffer, counted down)
/// is spent; one order is always finished. An arena above `goodEnough` bytes is
/// then repaired: the same orders again and again, each time with the buffer
/// that reaches its end moved forward. With `bytesPerNode` (as in Options)
/// repair, too, costs no more than what it could save is worth, and ends where
/// it has found nothing for long.
Placement placeByPortfolio(const Component &component, int64_t target,
                           int64_t goodEnough, int64_t bytesPerNode,
                           int64_t &work);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_PORTFOLIO_H
