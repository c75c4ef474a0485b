//===- TrainProfile.cpp - --profile of a training run ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainProfile.h"

#include "RunFacts.h"
#include "StopSignals.h"

#include <algorithm>
#include <charconv>

using namespace optrt;

namespace optimus_run {

std::optional<StepRange> ProfileSteps::parse(const std::string &text) const {
  StepRange steps;
  const char *end = text.data() + text.size();
  auto [colon, first] = std::from_chars(text.data(), end, steps.first);
  if (first != std::errc() || colon == end || *colon != ':')
    return std::nullopt;
  auto [stop, last] = std::from_chars(colon + 1, end, steps.last);
  if (last != std::errc() || stop != end || steps.first < 1 ||
      steps.last < steps.first)
    return std::nullopt;
  return steps;
}

std::string TrainProfile::pathOf(const TrainOptions &options,
                                 const ControlPlane &control) {
  if (options.profile.empty() || control.numLocalRanks() == control.size())
    return options.profile;
  return concat(options.profile, ".",
                control.firstRank() / control.numLocalRanks());
}

Status TrainProfile::open(const TrainOptions &options, const TrainingPlan &plan,
                          const ControlPlane &control) {
  path = pathOf(options, control);
  if (path.empty())
    return okStatus();
  const StepRange &asked = options.profileSteps;
  const int64_t last = plan.hyperparameters.steps;
  if (asked.first > std::max<int64_t>(last, 1) || asked.last < plan.firstStep)
    return invalidArgument(concat("expected some of the steps ", plan.firstStep,
                                  " to ", last, ", which this run takes, in ",
                                  "--profile-steps; found ", asked.first, ":",
                                  asked.last));
  OPTRT_ASSIGN_OR_RETURN(profile, Profile::open(path, options.profileSteps));
  return okStatus();
}

void TrainProfile::observe(SessionOptions &options) {
  if (!profile)
    return;
  options.observe = [this](const Rank &rank) { return profile->observe(rank); };
  // With all that is known, and before unfinished records are removed.
  options.onStall = [this, onStall = std::move(options.onStall)](
                        const Status &status, bool speaks) {
    (void)finish(status, /*signal=*/0);
    onStall(status, speaks);
  };
}

Status TrainProfile::describe(const TrainOptions &options,
                              const Session &session, const World &world) {
  if (!profile)
    return okStatus();
  return profile
      ->describe(session, *world.control,
                 runFacts(options, session.manifest(), world))
      .withContext(concat("cannot write '", path, "'"));
}

void TrainProfile::beginStep(int64_t step) {
  if (profile)
    profile->beginStep(step);
}

void TrainProfile::endStep() {
  if (profile)
    profile->endStep();
}

std::optional<std::string> TrainProfile::warning() {
  if (!profile || hasWarned || profile->failure().ok())
    return std::nullopt;
  hasWarned = true;
  return concat("--profile: cannot write '", path,
                "': ", profile->failure().message(), "; training goes on");
}

Status TrainProfile::finish(const Status &outcome, int signal) {
  if (!profile)
    return okStatus();
  return profile
      ->finish(!outcome.ok() ? "failed: " + outcome.message()
               : signal      ? "stopped by " + signalName(signal)
                             : "finished")
      .withContext(concat("cannot write '", path, "'"));
}

} // namespace optimus_run
