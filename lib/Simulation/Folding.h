//===- Folding.h - Ranks that do the same at the same time ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_FOLDING_H
#define OPTIMUS_LIB_SIMULATION_FOLDING_H

#include "optimus/Simulation/TimedProgram.h"

#include <vector>

namespace optimus_simulation {

/// Colours of ranks: those of a colour have the same table and speed, and on
/// each set of axes neighbours of the same colours. They do the same at the
/// same time, so that one actor may stand for them.
///
///   row:2,col:3, rank 0 computes twice as long
///   colours 0 1 1   0 is late, 1 are in its row, 2 in its column,
///           2 3 3   3 in neither: 4 actors for 6 ranks
class Folding {
public:
  /// Without `fold` each rank is its own actor.
  Folding(const TimedProgram &program, const WhatIf &whatIf, bool fold);

  size_t getNumActors() const { return actors.size(); }
  /// Of a colour, the lowest rank.
  int64_t getRank(uint32_t actor) const { return actors[actor]; }
  uint32_t getActor(int64_t rank) const {
    return isFolded ? colours[rank] : static_cast<uint32_t>(rank);
  }
  uint32_t getColour(uint32_t actor) const { return colours[actors[actor]]; }
  double getFactor(uint32_t actor) const { return factors[actors[actor]]; }

  /// The group of an actor on a set of axes, by the program's number, and the
  /// number of actors in it.
  uint32_t getGroup(uint32_t actor, uint32_t axes) const {
    return groups[axes][actors[actor]];
  }
  uint32_t getSize(uint32_t actor, uint32_t axes) const {
    return sizes[axes][groups[axes][actors[actor]]];
  }

private:
  void colour(const TimedProgram &program);
  void groupFolded();
  void groupUnfolded(const TimedProgram &program);

  const bool isFolded;
  std::vector<double> factors;
  /// By rank. The lowest rank of a colour is above that of each lower colour.
  std::vector<uint32_t> colours;
  std::vector<int64_t> actors;
  /// By set of axes and rank, the lowest rank of its group.
  std::vector<std::vector<uint32_t>> lowest;
  /// By set of axes and rank, the group; and by group, the actors.
  std::vector<std::vector<uint32_t>> groups, sizes;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_FOLDING_H
