//===- RunFacts.h - What a training run is ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_RUNFACTS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_RUNFACTS_H

#include "TrainFiles.h"

#include <string>
#include <utility>
#include <vector>

namespace optimus_run {

/// What its profile and its log say of a run: library and model, strategy and
/// mesh, device, version, machine, by their names there.
std::vector<std::pair<std::string, std::string>>
runFacts(const TrainOptions &options, const optrt::Manifest &manifest,
         const optrt::World &world);

/// The first record of a run's log: a JSON object with the time when it
/// "began", the "step" that it goes on from or 0, the facts above, sizes, the
/// data, and "flags". These are hyperparameters and others that matter to
/// results or speed, given or not.
std::string describeBeginning(const TrainOptions &options,
                              const TrainFiles &files,
                              const optrt::World &world,
                              const optrt::Session &session);

/// What would make ranks take different steps, or stop at different ones.
std::vector<optrt::Setting> listSettings(const TrainOptions &options,
                                         const TrainFiles &files);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_RUNFACTS_H
