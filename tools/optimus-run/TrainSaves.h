//===- TrainSaves.h - The checkpoints of a training run ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAVES_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAVES_H

#include "TrainFiles.h"
#include "optimus-runtime/Session.h"

#include <optional>
#include <string>

namespace optimus_run {

/// Where a run can go on: at initial values, the checkpoint of its beginning, or
/// its own last one.
struct SavedState {
  std::string folder; ///< empty: initial values
  bool goesOn = true; ///< not the parameters of the folder alone
  int64_t step = 0;   ///< that the state is of
};

/// The checkpoints under --save. At most one is being written behind steps.
class TrainSaves {
public:
  TrainSaves(const TrainOptions &options, TrainFiles &files,
             optrt::Session &session);

  /// Tells the session how to save: a lane does before each of its saves.
  void choose() const { session.setSaveFormat(format); }
  /// Makes room for a snapshot where saves go behind steps: unless told, those
  /// of a run that has the session `alone`. Collective.
  optrt::Status reserve(bool alone);
  /// From now on a save is over when it returns.
  void saveAtOnce() { isBehind = false; }

  /// Saves a state, or begins to. No save may be under way. Collective.
  optrt::Status save(const optrt::TrainingState &state);
  /// Notes the end of the save under way, if it is over. Collective.
  optrt::Status poll();
  /// Waits for the save under way, if there is one. Collective.
  optrt::Status finish();

  /// The step of the checkpoint that was written last.
  std::optional<int64_t> lastStep() const { return saved; }
  SavedState latest() const;
  /// From where the run can go on, with the flags; empty if from nowhere.
  std::string wayOn() const;
  /// The flags of a run that goes on from a folder.
  std::string howToLoad(const std::string &folder) const;

private:
  optrt::Status note(const optrt::StatusOr<bool> &over);

  const TrainOptions &options;
  const TrainFiles &files;
  optrt::Session &session;
  optrt::SaveFormat format;
  bool isBehind = false;
  std::optional<int64_t> saved;
  std::optional<int64_t> underWay; ///< the step of what is being written
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSAVES_H
