//===- Changes.h - What-ifs of flags and files ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_CHANGES_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_CHANGES_H

#include "CommandLine.h"

#include "optimus/Simulation/WhatIf.h"

namespace optimus_simulate {

/// The changes of all flags and of the lines of --what-if, for a mesh of so many
/// ranks.
optimus_support::StatusOr<optimus_simulation::WhatIf>
readChanges(const Arguments &arguments, int64_t ranks);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_CHANGES_H
