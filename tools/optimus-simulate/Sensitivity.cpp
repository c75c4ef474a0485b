//===- Sensitivity.cpp - What 1 % more would give ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sensitivity.h"

#include <algorithm>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

std::map<std::string, bool> optimus_simulate::listKinds(const Answer &answer) {
  std::map<std::string, bool> kinds;
  for (const std::string &part : answer.timed->getParts())
    kinds[part] = false;
  kinds.erase(kInserted);
  kinds.erase(kStarting);
  kinds.erase(kBetween);
  kinds.erase(kCopying);
  // Of all axes; the two ends of a message differ.
  for (const ExposureName &one : answer.timed->getExposures())
    kinds[one.kind] = true;
  return kinds;
}

StatusOr<std::vector<Gain>>
optimus_simulate::findGains(const Answer &answer, const WhatIf &whatIf,
                            const Resimulate &resimulate) {
  std::vector<Gain> gains;
  auto add = [&](const std::string &name, const WhatIf &faster) -> Status {
    OPTRT_ASSIGN_OR_RETURN(const Simulation changed, resimulate(faster));
    gains.push_back({name, answer.simulation.getStep() - changed.getStep()});
    return okStatus();
  };
  constexpr double kFactor = 1.01;
  WhatIf computing = whatIf, bandwidth = whatIf, latency = whatIf;
  const std::map<std::string, bool> kinds = listKinds(answer);
  for (const auto &[kind, isCollective] : kinds)
    if (!isCollective)
      computing.scalings.push_back({kind, 1 / kFactor});
  OPTRT_RETURN_IF_ERROR(add("all computing", computing));
  for (const auto &[kind, isCollective] : kinds) {
    WhatIf faster = whatIf;
    faster.scalings.push_back({kind, 1 / kFactor});
    OPTRT_RETURN_IF_ERROR(add(kind, faster));
  }
  if (!answer.timed->getExposures().empty()) {
    bandwidth.network.bandwidth *= kFactor;
    OPTRT_RETURN_IF_ERROR(add("bandwidth of links", bandwidth));
    latency.network.latency /= kFactor;
    OPTRT_RETURN_IF_ERROR(add("latency of links, 1 % less", latency));
  }
  std::stable_sort(
      gains.begin(), gains.end(),
      [](const Gain &a, const Gain &b) { return a.seconds > b.seconds; });
  return gains;
}
