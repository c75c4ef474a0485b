//===- StepScalars.h - What a step of training is given ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_STEPSCALARS_H
#define OPTIMUS_RUNTIME_TOOLING_STEPSCALARS_H

#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/Session.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace optrt {

/// Those of the hyperparameters `given` that the library's optimizer does not
/// read, as AdamW no momentum.
std::vector<std::string> findUnread(const std::set<std::string> &given,
                                    const Manifest &manifest);

/// The sequence that takes a step of so many microbatches.
std::string sequenceFor(int64_t microbatches);

/// Sets the scalars of step `step` (from 1) with the learning rate `lr`.
void setScalars(Session &session, const Hyperparameters &hyperparameters,
                int64_t step, double lr);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_STEPSCALARS_H
