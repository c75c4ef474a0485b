//===- SimulateLibrary.h - From a model library to an answer ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SIMULATELIBRARY_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SIMULATELIBRARY_H

#include "CommandLine.h"

namespace optimus_simulate {

/// Opens the library and the profile, simulates and writes what is asked for.
optimus_support::Status simulateLibrary(const Arguments &arguments);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SIMULATELIBRARY_H
