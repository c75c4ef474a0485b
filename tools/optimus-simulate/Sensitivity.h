//===- Sensitivity.h - What 1 % more would give -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SENSITIVITY_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SENSITIVITY_H

#include "Output.h"

#include <functional>
#include <map>
#include <string>

namespace optimus_simulate {

/// Simulates the answer's calls with other changes.
using Resimulate =
    std::function<optimus_support::StatusOr<optimus_simulation::Simulation>(
        const optimus_simulation::WhatIf &)>;

/// By how much the step is shorter when 1 % more is done a second: of all
/// computing, of each kind of command and collective, and by all links; the
/// greatest gain first.
optimus_support::StatusOr<std::vector<Gain>>
findGains(const Answer &answer, const optimus_simulation::WhatIf &whatIf,
          const Resimulate &resimulate);

/// Kinds of commands, and of collectives and messages of all axes, which are
/// true; without insertions, which have no rate.
std::map<std::string, bool> listKinds(const Answer &answer);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SENSITIVITY_H
