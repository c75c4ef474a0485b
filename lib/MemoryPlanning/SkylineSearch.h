//===- SkylineSearch.h - Does a component fit in so many bytes -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H
#define OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H

#include "Problem.h"

#include <chrono>

namespace optimus_planning {

/// What is left of the search's allowance.
struct SearchBudget {
  int64_t nodes = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

enum class SearchResult {
  Fits,
  /// Every placement has been ruled out.
  DoesNotFit,
  /// The allowance was spent first.
  GaveUp,
};

/// Looks for a placement of the component in an arena of `capacity` bytes.
/// Spends nodes of the budget; writes `offsets` when it fits.
SearchResult searchPlacement(const Component &component, int64_t capacity,
                             SearchBudget &budget,
                             std::vector<int64_t> &offsets);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H
