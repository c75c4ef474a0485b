//===- Folding.h - Ranks that do the same at the same time ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_FOLDING_H
#define OPTIMUS_LIB_SIMULATION_FOLDING_H

#include "Network.h"

#include "optimus/Simulation/TimedProgram.h"

#include <map>
#include <vector>

namespace optimus_simulation {

/// Colours of ranks: those of a colour have the same table and speed, and on
/// each set of axes neighbours of the same colours. They do the same at the
/// same time, so that one actor may stand for them.
///
/// On a cluster links have colours, too: those of a colour carry as much as
/// each other, for groups of the same members and links; and groups of
/// neighbours load links of the same colours.
///
///   row:2,col:3, rank 0 computes twice as long
///   colours 0 1 1   0 is late, 1 are in its row, 2 in its column,
///           2 3 3   3 in neither: 4 actors for 6 ranks
class Folding {
public:
  /// Without `fold` each rank is its own actor, and each link its own.
  Folding(const TimedProgram &program, const WhatIf &whatIf, bool fold,
          Network *network = nullptr);

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

  /// The lowest ranks of all groups that this one stands for.
  const std::vector<int64_t> &listGroups(uint32_t axes, uint32_t group) const {
    return standing[axes].at(group);
  }
  /// What stands for a link. That of the lowest link of a colour is above those
  /// of all lower colours.
  uint32_t getLink(uint32_t link) const {
    return isFolded ? linkColours[link] : link;
  }

private:
  /// The kinds of the groups of each set of axes, by rank.
  using Kinds = std::vector<std::vector<uint32_t>>;

  void colour(const TimedProgram &program);
  void groupFolded();
  void groupUnfolded(const TimedProgram &program);
  void listStanding();
  Kinds findKinds() const;
  size_t refineRanks(const Kinds &kinds);
  size_t refineLinks(const Kinds &kinds);

  const bool isFolded;
  Network *const network;
  std::vector<double> factors;
  /// By rank. The lowest rank of a colour is above that of each lower colour.
  std::vector<uint32_t> colours;
  std::vector<int64_t> actors;
  /// By set of axes and rank, the lowest rank of its group.
  std::vector<std::vector<uint32_t>> lowest;
  /// By set of axes and rank, the group; and by group, the actors.
  std::vector<std::vector<uint32_t>> groups, sizes;
  /// By set of axes and group.
  std::vector<std::map<uint32_t, std::vector<int64_t>>> standing;
  std::vector<uint32_t> linkColours;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_FOLDING_H
