//===- TrainFiles.h - What a training run reads and writes ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINFILES_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINFILES_H

#include "Commands.h"
#include "TrainLog.h"
#include "TrainSamples.h"
#include "TrainingPlan.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-support/FileLock.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace optimus_run {

/// All files of a run, opened and claimed before it begins: an unreadable
/// input, an unwritable output, or an output of another run too, is found
/// before training.
struct TrainFiles {
  std::shared_ptr<const optrt::ModelLibrary> library;
  StartingPoint start;
  std::unique_ptr<optrt::Checkpoint> checkpoint; ///< null without a start
  std::optional<TrainingPlan> plan;
  std::unique_ptr<optrt::Dataset> data;
  /// Null without --eval-data, and without --eval-every of a store.
  std::unique_ptr<optrt::Dataset> evalData;
  std::optional<int64_t> documentEnd; ///< the last token of each
  TrainSamples samples;

  /// Of the root process.
  optimus_support::FileLock saveLock, bestLock;
  std::vector<optrt::CompanionFile> companions; ///< of the start, to be saved
  /// What adapters of the start are beside, unless the run writes there.
  std::optional<optrt::BaseWeights> base;
  TrainLog log;

  /// Nothing that is there changes yet. Opens the library unless it is there.
  /// Collective; errors are the same in every process.
  optrt::Status open(const TrainOptions &options, optrt::ControlPlane &control);

  /// Finds the model in a checkpoint, with the optimizer's state if the run
  /// `goesOn` from it.
  optrt::Status findIn(optrt::Checkpoint &found, bool goesOn,
                       const TrainOptions &options) const;

  /// What `data` is, as far as is known, and how it is read, with no position.
  optrt::DataRecord describeData() const;

private:
  optrt::Status chooseStart(const TrainOptions &options);
  optrt::Status openData(const TrainOptions &options);
  optrt::Status openEvalData(const TrainOptions &options);
  optrt::Status addTokenizer();
  optrt::Status findBase(const TrainOptions &options);
  optrt::Status checkReplaces(const TrainOptions &options) const;
  optrt::Status claimOutputs(const TrainOptions &options);
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINFILES_H
