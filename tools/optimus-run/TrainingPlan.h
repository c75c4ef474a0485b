//===- TrainingPlan.h - Where a run begins and how it goes ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAININGPLAN_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAININGPLAN_H

#include "Commands.h"

#include <algorithm>

namespace optimus_run {

/// The checkpoint that a run begins from.
struct StartingPoint {
  std::string folder;          ///< empty: the run begins with initial values
  std::string flag = "--load"; ///< that led to it
  /// The run goes on where the checkpoint's ended; otherwise it begins with the
  /// checkpoint's parameters and nothing else of it.
  bool goesOn = true;
};

/// What a run does: the user's values, otherwise the loaded checkpoint's,
/// otherwise the defaults.
struct TrainingPlan {
  optrt::Hyperparameters hyperparameters;
  uint64_t seed = 0;
  std::string order = "shuffled";
  int64_t firstStep = 1;
  /// The data's position before the first step, in sequences.
  int64_t firstPosition = 0;
  /// The hash of all the data read by the loaded checkpoint's run, where this
  /// run's was not there to compare.
  std::optional<uint64_t> expectedContents;
  /// Notes for the user on their origin; may be empty.
  std::vector<std::string> notes;

  /// `loaded` is the state in `start` if the run goes on from there, or null.
  TrainingPlan(const TrainOptions &options, const StartingPoint &start,
               const optrt::TrainingState *loaded);

  /// Finds `firstPosition` in the data that this run reads: where the run of
  /// `loaded`, the state in `start`, stopped reading, or the beginning. Adds
  /// notes on what differs. InvalidArgument beyond all positions.
  optrt::Status goOnReading(const TrainOptions &options,
                            const StartingPoint &start,
                            const optrt::TrainingState &loaded,
                            const optrt::DataRecord &now);

  /// How many sequences were read before a step, by this run and those that it
  /// goes on from. `batch` is this run's.
  int64_t positionBefore(int64_t step, int64_t batch) const {
    return firstPosition + std::max<int64_t>(0, step - firstStep) * batch;
  }
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAININGPLAN_H
