//===- TrainingPlan.cpp - Where a run begins and how it goes --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingPlan.h"

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

} // namespace optimus_run
