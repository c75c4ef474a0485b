//===- Commands.h - The subcommands of optimus-run --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H

#include "LearningRate.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"

#include <cstdint>
#include <optional>
#include <string>

namespace optimus_run {

struct TrainOptions {
  std::string library;
  std::string data;
  int64_t steps = 100;
  /// Absent: 0, or what the loaded checkpoint says; so for `order`.
  std::optional<uint64_t> seed;
  std::optional<std::string> order;
  LearningRate learningRate;
  double weightDecay = 0.1;
  double clip = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  int threadsPerRank = 0;
  std::string save;
  int64_t saveEvery = 0;
  std::string load;
  std::string logJson;
  std::string evalData;
  int64_t evalEvery = 0;
};

struct EvalOptions {
  std::string library;
  std::string data;
  std::string load;
  uint64_t seed = 0;
  int threadsPerRank = 0;
  bool json = false;
};

struct InspectOptions {
  std::string library;
  bool json = false;
};

struct VerifyOptions {
  std::string first, second; ///< libraries
  std::string data;
  std::string load;
  std::string order = "shuffled";
  uint64_t seed = 0;
  int64_t stepIndex = 0;
  int threadsPerRank = 0;
  bool json = false;
};

// A status that a command returns is the same in every process of the job;
// what only one process knows ends the job there, see failJob().

optrt::Status train(const TrainOptions &options, optrt::World &world);
optrt::Status eval(const EvalOptions &options, optrt::World &world);
optrt::Status inspect(const InspectOptions &options);
/// Runs all ranks as threads, one library after the other.
optrt::Status verify(const VerifyOptions &options);

/// Prints one line that says what went wrong.
void printFailure(const optrt::Status &status);

/// Hands on the failure of some rank of this process. With several processes
/// the others would wait for this one for ever: prints it and ends the job.
optrt::Status failJob(optrt::World &world, optrt::Status status);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H
