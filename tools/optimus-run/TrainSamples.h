//===- TrainSamples.h - What a model in training says -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAMPLES_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAMPLES_H

#include "Commands.h"
#include "optimus-runtime/Generator.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace optimus_run {

/// Texts that a library with functions for generation writes between steps.
class TrainSamples {
public:
  /// Finds the functions and reads the prompts, where samples are asked for.
  /// InvalidArgument where the library has no such functions or the prompts do
  /// not fit them.
  static optrt::StatusOr<TrainSamples> open(const TrainOptions &options,
                                            const optrt::ModelLibrary &library);

  /// Adds what a session must choose.
  void choose(optrt::SessionOptions &chosen) const;
  /// What processes must have alike.
  std::string describe() const;
  bool areDueAfter(int64_t step) const {
    return every > 0 && step % every == 0;
  }
  /// Of each prompt the text that follows it, or its tokens: in the root
  /// process. The session's parameters stay as they are. Collective.
  optrt::StatusOr<nlohmann::ordered_json>
  write(optrt::Session &session, optrt::ControlPlane &control) const;

private:
  int64_t every = 0;
  bool areText = false;
  optrt::GenerationEntries entries;
  std::vector<optrt::GenerationRequest> requests;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAMPLES_H
