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

/// When searches must have ended, if their time is limited.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// What is left of a search's allowance.
struct SearchBudget {
  int64_t nodes = 0;
  Deadline deadline;

  bool isLate() const {
    return deadline && std::chrono::steady_clock::now() >= *deadline;
  }
};

/// The deadline of searches with these options that begin now.
Deadline deadlineOf(const Options &options);

/// The exact search in one component, asked for one capacity after the other.
class SkylineSearch {
public:
  explicit SkylineSearch(const Component &component);

  /// Whether there are few enough buffers; otherwise every run gives up.
  bool isPossible() const { return !neighbours.empty(); }

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
