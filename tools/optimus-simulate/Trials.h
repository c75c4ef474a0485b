//===- Trials.h - Plans of one program, side by side ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_TRIALS_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_TRIALS_H

#include "CommandLine.h"

#include <string>

namespace optimus_simulate {

/// Runs optimus-compile, which lies beside this program or in PATH, on
/// `program` with `flags` as a shell splits them, and writes the plan there.
/// InvalidArgument names the flags and has the compiler's messages.
optimus_support::Status compilePlan(const Arguments &arguments,
                                    const std::string &flags,
                                    const std::string &plan);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_TRIALS_H
