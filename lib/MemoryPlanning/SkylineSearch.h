//===- SkylineSearch.h - Does a component fit in so many bytes -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H
#define OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H

#include "Skyline.h"

namespace optimus_planning {

/// What is left of the search's allowance.
struct SearchBudget {
  int64_t nodes = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// When a search with these options must have ended, if its time is limited.
std::optional<std::chrono::steady_clock::time_point>
deadlineOf(const Options &options);

/// The exact search in one component, asked for one capacity after the other.
class SkylineSearch {
public:
  explicit SkylineSearch(const Component &component);

  /// Looks for a placement of the component in an arena of `capacity` bytes.
  /// Spends nodes of the budget; writes `offsets` when it fits.
  SearchResult run(int64_t capacity, SearchBudget &budget,
                   std::vector<int64_t> &offsets) const;

private:
  const Component &component;
  Neighbours neighbours;
  int64_t unit;
};

/// All arenas are multiples of this: the greatest common divisor of the sizes
/// and fixed offsets where that satisfies every alignment, of these and the
/// alignments otherwise.
int64_t arenaStep(std::span<const Component> components);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_SKYLINESEARCH_H
