//===- Skyline.h - One depth-first search for a placement -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_SKYLINE_H
#define OPTIMUS_LIB_MEMORYPLANNING_SKYLINE_H

#include "Neighbours.h"
#include "Ranking.h"

#include <chrono>

namespace optimus_planning {

enum class SearchResult {
  Fits,
  /// Every placement has been ruled out.
  DoesNotFit,
  /// The allowance was spent first.
  GaveUp,
};

/// What a search is asked, and how far it may go.
struct SkylineQuery {
  const Component &component;
  const Neighbours &neighbours;
  /// All sizes and fixed offsets are multiples of it, and so all offsets of
  /// buffers on top of each other.
  int64_t unit;
  /// The bytes to fit in.
  int64_t capacity;
  const Ranking &ranking;
  int64_t nodeLimit;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

struct SkylineAnswer {
  SearchResult result;
  /// In bytes, by buffer, when it fits.
  std::vector<int64_t> offsets;
  /// Buffers placed, the dear ones counted more than once.
  int64_t nodes;
};

/// Searches all placements, those first that try buffers by falling rank. The
/// neighbours must not have given up.
SkylineAnswer searchSkylines(const SkylineQuery &query);

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_SKYLINE_H
