//===- OwnPrediction.cpp - What a call would take on this machine ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnPrediction.h"

#include "optimus/Prices/OwnMachine.h"
#include "optimus/Simulation/Simulator.h"

using namespace optimus_simulation;

std::optional<optimus_run::OwnPrediction>
optimus_run::predictHere(const optrt::ModelLibrary &library,
                         const std::string &function) {
  const auto own = optimus_prices::findOwnMachine();
  if (!own)
    return std::nullopt;
  const TimedProgram timed(library.programs(), library.target(), own->profile,
                           {});
  const auto simulation = simulate(timed, {function}, {});
  if (!simulation.ok())
    return std::nullopt;
  auto toMs = [](Picoseconds time) { return double(time) * 1e-9; };
  const RankTimes &slowest = simulation->ranks[simulation->slowest];
  return OwnPrediction{toMs(slowest.end), toMs(slowest.exposed), own->path};
}
