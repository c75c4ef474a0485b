//===- OwnPrediction.h - What a call would take on this machine -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_OWNPREDICTION_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_OWNPREDICTION_H

#include "optimus-runtime/ModelLibrary.h"

#include <optional>
#include <string>

namespace optimus_run {

/// Times in milliseconds, by the profile at `path`.
struct OwnPrediction {
  double stepMs, exposedMs;
  std::string path;
};

/// A call of a function by ranks that are threads of this machine, as
/// `optimus-simulate --function` has it. Nothing where no prediction was asked
/// for yet that measured this machine: `bench` times the call itself.
std::optional<OwnPrediction> predictHere(const optrt::ModelLibrary &library,
                                         const std::string &function);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_OWNPREDICTION_H
