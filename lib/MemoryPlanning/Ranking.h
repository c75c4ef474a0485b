//===- Ranking.h - In which order a search tries buffers --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_RANKING_H
#define OPTIMUS_LIB_MEMORYPLANNING_RANKING_H

#include "Problem.h"

#include <array>

namespace optimus_planning {

/// What a ranking sorts by, the greatest first.
enum class RankingKey {
  /// The bytes alive in the fullest section of the buffer.
  Load,
  /// How long it is alive, in the caller's time.
  Duration,
  /// In how many sections it is alive.
  Sections,
  /// Its size times its duration.
  Area,
};

struct Strategy {
  std::array<RankingKey, 3> keys;
  /// Whether the parts of a split search are ranked anew, by their remaining
  /// load.
  bool renewsLoads;
};

/// The keys of every buffer under one strategy.
class Ranking {
public:
  /// A `seed` other than 0 distorts each key by up to a factor of 1.5.
  Ranking(const Component &component, const Strategy &strategy, uint32_t seed);

  /// Sorts buffers given by rising index, the first to try first. `loads`: the
  /// bytes that stand for the load of each of `buffers`; empty: those of the
  /// whole component.
  void sort(std::vector<int32_t> &buffers,
            std::span<const int64_t> loads = {}) const;

  bool renewsLoads() const { return strategy.renewsLoads; }

private:
  struct Row {
    std::array<double, 3> keys;
    /// What its load is multiplied by.
    double loadFactor = 1;
  };

  const Strategy strategy;
  std::vector<Row> rows;
};

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_RANKING_H
