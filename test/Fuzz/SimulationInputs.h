//===- SimulationInputs.h - Clusters and what-ifs, simulated ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TEST_FUZZ_SIMULATIONINPUTS_H
#define OPTIMUS_TEST_FUZZ_SIMULATIONINPUTS_H

#include "optimus/Simulation/Cluster.h"
#include "optimus/Simulation/OneCollective.h"
#include "optimus/Simulation/Simulator.h"

namespace optimus_fuzz {

/// An all-reduce among 16 ranks, on a cluster by every message, too; whether it
/// was simulated.
inline bool simulateOne(const optimus_simulation::WhatIf &whatIf,
                        const optimus_simulation::Cluster *cluster) {
  using namespace optimus_simulation;
  static const auto programs = makeOneCollective(
      optimus_support::program::CollectiveKind::AllReduce, 16, 1 << 20);
  const TimedProgram timed(programs, *programs.targets.front(), {}, whatIf);
  const bool isSimulated =
      simulate(timed, {kOneCollective}, whatIf, {.cluster = cluster}).ok();
  if (cluster)
    (void)simulate(timed, {kOneCollective}, whatIf,
                   {.cluster = cluster, .everyMessage = true});
  return isSimulated;
}

/// A cluster's file; false where it is refused.
inline bool tryCluster(std::string_view text) {
  const auto cluster = optimus_simulation::parseCluster(text, "input");
  return cluster.ok() && simulateOne({}, &*cluster);
}

/// A file of changes; false where it is refused.
inline bool tryWhatIf(std::string_view text) {
  optimus_simulation::WhatIf whatIf;
  return optimus_simulation::addChanges(text, "input", 16, whatIf).ok() &&
         simulateOne(whatIf, nullptr);
}

} // namespace optimus_fuzz

#endif // OPTIMUS_TEST_FUZZ_SIMULATIONINPUTS_H
