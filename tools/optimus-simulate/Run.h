//===- Run.h - What a simulation knows from a run ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_RUN_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_RUN_H

#include "Output.h"

#include "optimus/Prices/RunTimes.h"

namespace optimus_simulate {

/// Reads a profile of `train --profile` for a library. InvalidArgument where it
/// is of another model, mesh or device.
optimus_support::StatusOr<optimus_prices::RunTimes>
readRun(const std::string &path, const optrt::ModelLibrary &library);

/// How much of an answer is measured, all commands of its slowest rank counted.
RunShare countRun(const Answer &answer, const std::string &path,
                  const optimus_prices::RunProfile &run);

/// Whether a run made just the calls of an answer, with the same commands.
bool isRunOf(const optimus_prices::RunProfile &run, const Answer &answer);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_RUN_H
