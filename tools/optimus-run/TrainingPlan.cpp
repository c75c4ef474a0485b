//===- TrainingPlan.cpp - Where a run begins and how it goes --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingPlan.h"

#include <algorithm>

using namespace optrt;

namespace optimus_run {
namespace {

/// `kept`, with the hyperparameters that were given put in their places.
Hyperparameters chosen(const TrainOptions &options, Hyperparameters kept) {
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &, auto &value,
          const auto &given) {
        if (options.given.count(info.name))
          value = given;
      },
      kept, options.hyperparameters);
  return kept;
}

/// For instance "corpus.bin of 1,200 tokens (u16)".
std::string describe(const DataRecord &data) {
  return concat(data.file, " of ", data.identity.tokens, " tokens (",
                toString(data.identity.type), ")");
}

int64_t numWindows(const DataRecord &data) {
  return (data.identity.tokens - 1) / data.sequence;
}

} // namespace

TrainingPlan::TrainingPlan(const TrainOptions &options,
                           const StartingPoint &start,
                           const TrainingState *loaded) {
  hyperparameters = chosen(options, {});
  if (loaded) {
    firstStep = loaded->step + 1;
    firstPosition = loaded->dataPosition;
    if (loaded->hyperparameters)
      hyperparameters = chosen(options, *loaded->hyperparameters);
    else
      notes.push_back(concat(
          start.folder, " keeps no hyperparameters, as an earlier version of "
                        "this program wrote it: those that are not given have "
                        "their defaults"));
  }
  const LearningRate &rate = hyperparameters.rate;
  if (rate.warmup > hyperparameters.steps && hyperparameters.steps > 0)
    notes.push_back(
        concat("--warmup ", rate.warmup, " is longer than the run, --steps ",
               hyperparameters.steps, ": the learning rate rises to ",
               RealNumber::print(
                   rate.at(hyperparameters.steps, hyperparameters.steps)),
               " and never reaches --lr ", RealNumber::print(rate.peak)));
  if (rate.schedule == LearningRate::Schedule::Constant)
    for (const char *name : {"min_lr", "decay_steps"})
      if (options.given.count(name))
        notes.push_back(concat(HyperparameterInfo{name, ""}.flag(),
                               " changes nothing: --schedule constant does not "
                               "read it"));
  seed = options.seed.value_or(loaded ? loaded->seed : seed);
  order = options.order.value_or(loaded ? loaded->order : order);
  if (!loaded)
    return;

  std::string changes;
  auto compare = [&](const std::string &flag, const std::string &now,
                     const std::string &before) {
    if (now != before)
      changes += concat(changes.empty() ? "" : ", ", flag, " ", now, " (was ",
                        before, ")");
  };
  if (loaded->hyperparameters) {
    auto now = listHyperparameters(hyperparameters);
    auto before = listHyperparameters(*loaded->hyperparameters);
    for (std::size_t i = 0; i != now.size(); ++i)
      compare(now[i].first.flag(), now[i].second, before[i].second);
  }
  compare("--seed", std::to_string(seed), std::to_string(loaded->seed));
  compare("--order", order, loaded->order);
  if (!changes.empty())
    notes.push_back("unlike before: " + changes);
}

Status TrainingPlan::goOnReading(const TrainOptions &options,
                                 const StartingPoint &start,
                                 const TrainingState &loaded,
                                 const DataRecord &now) {
  const std::optional<DataRecord> &before = loaded.data;
  const bool isSameData = before && before->identity.agreesWith(now.identity);
  const bool areSameWindows = before && before->sequence == now.sequence;
  if (isSameData && !now.identity.contents)
    expectedContents = before->identity.contents;
  if (before && !isSameData)
    notes.push_back(
        concat("the data is not what ", start.folder,
               " was trained on: ", describe(now), ", was ", describe(*before),
               now.identity.type == before->identity.type &&
                       now.identity.tokens == before->identity.tokens
                   ? "; they have other contents"
                   : ""));
  if (before && !areSameWindows)
    notes.push_back(concat("unlike before: sequences of ", now.sequence,
                           " tokens (was ", before->sequence, ")"));
  if (before && before->batch != now.batch)
    notes.push_back(concat("unlike before: a step reads ", now.batch,
                           " sequences (was ", before->batch, ")"));
  // A job that is started again has begun anew already.
  if (options.restartData &&
      !(options.resume && start.folder == options.save)) {
    firstPosition = 0;
    notes.push_back("--restart-data: reading begins anew, with the first "
                    "window of the first epoch");
    return okStatus();
  }
  if (!before) {
    notes.push_back(
        concat(start.folder,
               " does not say what data it was trained on, as an earlier "
               "version of this program wrote it: reading goes on after ",
               loaded.dataPosition, " sequences"));
    return okStatus();
  }
  if (areSameWindows)
    firstPosition = loaded.dataPosition;
  else if (isSameData) {
    // Epochs of other windows end a few tokens earlier or later.
    const int64_t epoch = loaded.dataPosition / numWindows(*before);
    const int64_t within = loaded.dataPosition % numWindows(*before);
    // No token of the epoch is skipped; less than a window is read again.
    firstPosition = within * before->sequence / now.sequence;
    if (epoch > kMostDataPosition / numWindows(now))
      firstPosition = kMostDataPosition;
    else
      firstPosition += epoch * numWindows(now);
  } else
    firstPosition = before->position / now.sequence;
  if (firstPosition >= kMostDataPosition)
    return invalidArgument(
        concat(start.folder, ": after ", before->position,
               " tokens reading cannot go on with sequences of ", now.sequence,
               ", which would be more than ", kMostDataPosition,
               " of them; --restart-data begins anew"));
  if (!isSameData || !areSameWindows)
    notes.push_back(concat(
        "reading goes on after ", before->position, " tokens, in epoch ",
        firstPosition / numWindows(now) + 1, " at window ",
        firstPosition % numWindows(now), " of ", numWindows(now),
        order == "shuffled" && !areSameWindows && isSameData
            ? "; the rest of a shuffled epoch has other windows, and some "
              "tokens come again"
            : "",
        "; --restart-data begins anew"));
  return okStatus();
}

} // namespace optimus_run
