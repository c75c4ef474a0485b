//===- Hyperparameters.h - The scalars of a step ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H

#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/Session.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace optimus_run {

/// Those of the hyperparameters `given` that the library's optimizer does not
/// read, as AdamW no momentum.
std::vector<std::string> findUnread(const std::set<std::string> &given,
                                    const optrt::Manifest &manifest);

/// Sets the scalars of step `step` (from 1) with the learning rate `lr`.
void setScalars(optrt::Session &session,
                const optrt::Hyperparameters &hyperparameters, int64_t step,
                double lr);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H
