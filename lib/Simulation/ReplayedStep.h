//===- ReplayedStep.h - What ranks did in a step of a run -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The records of a run say when things began and ended. A simulation wants to
// know their times without waits: of a rank's computing between two waits, and
// of a collective from when its last member has come.
//
//   rank 0: compute 0–3 | start | wait 3–7 | compute 7–9
//   rank 1: compute 0–5 | start | wait 5–7 | compute 7–8
//   the collective takes 2, from 5 to 7; computing 3, 2 and 5, 1
//
// Waits of the simulation are then those of the run, and others where something
// is changed.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_REPLAYEDSTEP_H
#define OPTIMUS_LIB_SIMULATION_REPLAYEDSTEP_H

#include "optimus/Prices/MachinePrices.h"
#include "optimus/Prices/RunProfile.h"

#include "optimus-support/Mesh.h"

#include <optional>
#include <span>
#include <vector>

namespace optimus_simulation {

/// Of a command on one rank: sums, in seconds.
struct ReplayedCommand {
  /// From the end of the command before, or of the wait before, to its own; and
  /// the part of it before its begin.
  double busy = 0, gap = 0;
  /// Of a collective: the rank's time between the command before its wait and
  /// the wait; the collective's once all have come; and its processors'.
  double beforeWait = 0, under = 0, processors = 0;
  /// How many of each are in the sums, and how many collectives began when
  /// somebody waited for them.
  int64_t count = 0, waits = 0, transfers = 0, awaited = 0;

  void add(const ReplayedCommand &other);
};

struct ReplayedRank {
  /// When its first call began, after that of the first rank, and how long its
  /// last one went on after its last command.
  double begin = 0, after = 0;
  /// By place in the profile's commands.
  std::vector<ReplayedCommand> commands;
};

/// How ranks and collectives share a machine.
struct ReplayMachine {
  const optimus_support::Mesh &mesh;
  const optimus_prices::MachinePrices &prices;
  /// Where ranks share cores, each thing takes what it would take with cores of
  /// its own: what others had of them meanwhile is not part of it.
  std::optional<optimus_prices::SharedCores> cores;
  bool axesShareLink = false;
};

/// By rank; without commands where the profile has none of a rank.
std::vector<ReplayedRank> replayStep(const optimus_prices::RunProfile &run,
                                     const optimus_prices::RunStep &step,
                                     const ReplayMachine &machine);

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_REPLAYEDSTEP_H
