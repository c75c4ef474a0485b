//===- TrainSaves.cpp - The checkpoints of a training run -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainSaves.h"

#include <utility>

using namespace optrt;

namespace optimus_run {
namespace {

/// The outcome of a save, once it is over.
StatusOr<bool> overWith(Status status) {
  return status.ok() ? StatusOr<bool>(true) : StatusOr<bool>(status);
}

} // namespace

TrainSaves::TrainSaves(const TrainOptions &options, TrainFiles &files,
                       Session &session)
    : options(options), files(files), session(session) {
  format.companions = std::move(files.companions);
  format.base = std::move(files.base);
  if (options.saveFormat.type)
    format.modelType = *options.saveFormat.type;
  if (options.saveFormat.shardBytes)
    format.shardLimitBytes = *options.saveFormat.shardBytes;
}

Status TrainSaves::reserve(bool alone) {
  // A snapshot is of one lane.
  if (options.saveEvery > 0 && options.saveAsync.value_or(alone)) {
    OPTRT_ASSIGN_OR_RETURN(
        isBehind,
        session.reserveSnapshot(options.save, options.saveAsync.has_value()));
  }
  return okStatus();
}

Status TrainSaves::save(const TrainingState &state) {
  underWay = state.step;
  if (!isBehind)
    return note(overWith(session.save(options.save, state)));
  Status begun = session.beginSave(options.save, state);
  return begun.ok() ? okStatus() : note(begun);
}

Status TrainSaves::poll() { return note(session.pollSave()); }

Status TrainSaves::finish() {
  return underWay ? note(overWith(session.finishSave())) : okStatus();
}

/// The checkpoint is in place, or why it will not be.
Status TrainSaves::note(const StatusOr<bool> &over) {
  if (!underWay || (over.ok() && !*over))
    return okStatus();
  const int64_t step = *std::exchange(underWay, std::nullopt);
  if (!over.ok())
    return over.status()
        .withContext(concat("--save after step ", step))
        .withAdvice(wayOn());
  saved = step;
  return okStatus();
}

SavedState TrainSaves::latest() const {
  if (saved)
    return {options.save, /*goesOn=*/true, *saved};
  return {files.start.folder, files.start.goesOn, files.plan->firstStep - 1};
}

std::string TrainSaves::wayOn() const {
  const SavedState state = latest();
  if (state.folder.empty() || !state.goesOn)
    return "";
  return concat("go on from step ", state.step, " with ",
                howToLoad(state.folder));
}

std::string TrainSaves::howToLoad(const std::string &folder) const {
  return options.resume ? "the same command" : concat("--load ", folder);
}

} // namespace optimus_run
