//===- TrainProfile.h - --profile of a training run -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINPROFILE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINPROFILE_H

#include "Commands.h"
#include "TrainingPlan.h"
#include "optimus-runtime/Profile.h"

#include <memory>
#include <optional>
#include <string>

namespace optimus_run {

/// The values of --profile-steps.
struct ProfileSteps {
  std::string expected() const {
    return "the first and the last step to record, FIRST:LAST with 1 <= FIRST "
           "<= LAST, as in 5:20";
  }
  std::optional<optrt::StepRange> parse(const std::string &text) const;
};

/// The profile that a run writes, if it writes one.
class TrainProfile {
public:
  /// Where this process writes it: FILE or, of several processes, FILE.0 and
  /// so on.
  static std::string pathOf(const TrainOptions &options,
                            const optrt::ControlPlane &control);

  /// Nothing without --profile. An error where the plan has none of the steps
  /// that are to be recorded.
  optrt::Status open(const TrainOptions &options, const TrainingPlan &plan,
                     const optrt::ControlPlane &control);
  /// Has the ranks of a session observed.
  void observe(optrt::SessionOptions &options);
  optrt::Status describe(const TrainOptions &options,
                         const optrt::Session &session,
                         const optrt::World &world);

  void beginStep(int64_t step);
  void endStep();
  /// Why recording has ended, the first time that somebody asks.
  std::optional<std::string> warning();

  /// Puts the file in its place. `outcome` and `signal` are the run's.
  optrt::Status finish(const optrt::Status &outcome, int signal);

private:
  std::string path;
  std::unique_ptr<optrt::Profile> profile;
  bool hasWarned = false;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINPROFILE_H
