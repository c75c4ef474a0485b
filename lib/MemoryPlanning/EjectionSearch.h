//===- EjectionSearch.h - Local search by ejection -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers the arena of a placement of any number of buffers, for as long as its
// budget allows.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_EJECTIONSEARCH_H
#define OPTIMUS_LIB_MEMORYPLANNING_EJECTIONSEARCH_H

#include "Portfolio.h"
#include "SkylineSearch.h"

#include <random>

namespace optimus_planning {

/// Local search in one component. What it learns stays from call to call.
class EjectionSearch {
public:
  /// `component` must outlive the search. Arenas are multiples of `step`.
  EjectionSearch(const Component &component, int64_t step);

  /// Lowers the arena of a placement towards `goal` bytes, at least the
  /// component's lower bound. Returns when the goal is reached or the budget is
  /// spent. The arena never grows.
  void improve(Placement &placement, int64_t goal, SearchBudget &budget);

private:
  /// A placed buffer beside the one that is being placed.
  struct Neighbour {
    int64_t begin;
    int64_t end;
    double cost;
    int32_t buffer;
    /// It may not be ejected, or not yet.
    bool isFixed;
    bool isTabu;
  };
  class GapCosts;

  /// How the attempt under way takes buffers out of the pool.
  enum class Pick { Dearest, Last, Any };

  int32_t topBuffer() const;
  bool lowerBuffer(int32_t top, int64_t capacity, SearchBudget &budget);
  bool placeFromPool(int64_t capacity, SearchBudget &budget);
  int32_t takeFromPool();
  void collectNeighbours(int32_t index);
  std::optional<int64_t> chooseOffset(const Buffer &buffer, int64_t capacity);
  void eject(int32_t index);
  bool isSpent(const SearchBudget &budget) const;
  double costOf(int32_t index) const {
    return (*weights)[index] * penalties[index];
  }
  int64_t endOf(int32_t index) const {
    return offsets[index] + component.buffers[index].size;
  }

  const Component &component;
  const int64_t step;
  /// By section, and one more: the first buffer that begins there or later.
  std::vector<int32_t> firstAt;
  /// By block of buffers: those before it that are alive when it begins.
  std::vector<std::vector<int32_t>> aliveAtBlock;

  /// By kind of weight and by buffer: how hard it is to place again.
  std::vector<std::vector<double>> weightTables;
  const std::vector<double> *weights = nullptr;
  /// By buffer: grows each time it is ejected.
  std::vector<double> penalties;
  Pick pick = Pick::Dearest;

  /// By buffer: where it lies, or -1; the move before which it stays.
  std::vector<int64_t> offsets;
  std::vector<int64_t> staysUntil;
  /// Ejected buffers, and the offsets that the attempt has changed.
  std::vector<int32_t> pool;
  std::vector<std::pair<int32_t, int64_t>> changed;
  /// Scratch of the buffer that is being placed: by rising begin, and indices
  /// into it by rising end.
  std::vector<Neighbour> around;
  std::vector<int32_t> byEnd;

  /// What the next attempt aims at, of the distance to the goal, and the moves
  /// it may take.
  double share = 0.5;
  int64_t allowance = 300;
  int64_t move = 0;
  /// Seeded: the same budget of nodes gives the same placement.
  std::mt19937_64 random{1};
};

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_EJECTIONSEARCH_H
