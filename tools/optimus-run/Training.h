//===- Training.h - One training run ----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINING_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINING_H

#include "Evaluation.h"
#include "Progress.h"
#include "RunEnd.h"
#include "StopSignals.h"
#include "SubnormalWatch.h"
#include "TrainFiles.h"
#include "TrainProfile.h"
#include "TrainSaves.h"
#include "TrainStep.h"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace optimus_run {

/// One training run: its inputs, its outputs, and its state. Alone it is run().
/// As a lane of several, whoever has the session calls the functions from
/// open() to finish() in their order, those from prepare() to endStep() once a
/// step.
class Training {
public:
  using Clock = TrainStep::Clock;

  /// `name` is that of a lane, for people; empty: the run is alone.
  Training(const TrainOptions &options, optrt::World &world,
           std::string name = "")
      : options(options), world(world), control(*world.control),
        name(std::move(name)) {}

  /// The signal that ended it early, or 0.
  optrt::StatusOr<int> run();

  /// Opens its files; of a lane, with the library of all.
  optrt::Status
  open(std::shared_ptr<const optrt::ModelLibrary> library = nullptr);
  /// Adds what it calls.
  optrt::Status choose(optrt::SessionOptions &chosen);
  /// Makes its state in a session, a lane's that is chosen, and begins its log.
  /// The session must outlive it.
  optrt::Status begin(optrt::Session &session, int64_t lane);
  /// Whether all steps are taken.
  bool isOver() const {
    return reached >= finalStep() ||
           (reached >= plan().firstStep && isOutOfPatience());
  }
  /// Reads the batches of the next step.
  optrt::Status prepare();
  /// Sets the numbers of that step in its lane, and returns its batches.
  std::span<const optrt::CallInputs> beginStep();
  /// Reads the batches of the step behind the one under way, on any thread.
  void readAhead() { calls->readAfter(reached + 1); }
  /// Notes what the step has left in its lane, its call having ended then, and
  /// evaluates and saves if it is time to. Fails where the run cannot go on.
  optrt::Status endStep(Clock::time_point callEnded);
  /// Saves, unless `outcome` is a failure of its own, says how the run ended,
  /// and closes its log.
  optrt::Status finish(const Interruption &stop, optrt::Status outcome);
  /// Its log says that it has ended so.
  void abandon(const optrt::Status &status) { logEnd(status); }

  bool hasFinished() const { return endIsLogged; }

  int64_t microbatches() const { return plan().hyperparameters.microbatches; }
  int64_t lane() const { return number; }
  const std::string &label() const { return name; }

private:
  using Status = optrt::Status;

  optrt::StatusOr<int> trainAndReport();
  optrt::StatusOr<int> report(Status outcome);
  Status prepareSession();
  Status prepareState();
  Status beginState();
  Status beginLog();
  Status failJob(const Status &status);
  Status end(Status status);
  Status diverged(std::string message);
  void logEnd(const Status &status);
  void warnOfProfile();
  void say(const std::string &line) const;
  void announce() const;
  void announceStart() const;
  void enter();

  Status steps();
  Status takeSteps(Interruption &stop);
  Status finishSteps(const Interruption &stop);
  void setStepScalars();
  Status oneStep();
  Status took(const optrt::StepOutputs &outputs);
  Status examine(const optrt::StepOutputs &outputs);
  std::string causeOf(int64_t step);
  void compareContents();
  Status evaluateAfter(int64_t step, std::optional<Evaluation> &evaluation);
  Status sampleAfter(int64_t step, nlohmann::ordered_json &samples);
  void logStep(const std::optional<Evaluation> &evaluation,
               const nlohmann::ordered_json &samples);
  Status judge(const Evaluation &evaluation, int64_t step);
  bool isOutOfPatience() const {
    return options.patience > 0 && best &&
           best->evaluationsSince >= options.patience;
  }
  Status checkHealth();
  optrt::TrainingState state() const;
  Status keepBest();
  Status save();
  Status finishSave();
  std::string wayOn() const;
  void summarize() const;

  /// Sequences of a step, all microbatches together.
  int64_t batch() const {
    return manifest().batch * plan().hyperparameters.microbatches;
  }
  int64_t batchTokens() const { return batch() * manifest().sequence; }
  int64_t lastStep() const { return plan().hyperparameters.steps; }
  /// The last one of this run, which --until may end sooner.
  int64_t finalStep() const {
    return std::min(lastStep(), options.until.value_or(lastStep()));
  }
  const optrt::Manifest &manifest() const { return files.library->manifest(); }
  const TrainingPlan &plan() const { return *files.plan; }

  const TrainOptions &options;
  optrt::World &world;
  optrt::ControlPlane &control; ///< the world's
  const std::string name;
  TrainFiles files;
  TrainProfile profile;
  std::unique_ptr<optrt::Session> ownSession; ///< null for a lane
  optrt::Session *session = nullptr;
  int64_t number = 0; ///< of the lane
  std::optional<TrainSaves> saves;  ///< once there is a session
  std::optional<Progress> progress; ///< while there are steps
  std::optional<TrainStep> calls;   ///< of a step

  int64_t bytesOfAStep = 0;
  optrt::RankMemory largestRank;
  StepReport last;
  SubnormalWatch subnormals;
  double secondsAfterFirst = 0;
  Clock::time_point start;     ///< before the first step
  Clock::time_point stepStart; ///< of the present one, reading its batch aside
  std::string beginning;       ///< of the log, until its first line is written
  Clock::duration reading{};   ///< how long the batches took to be read
  int64_t reached = 0; ///< the last step that was taken, by this run or before
  std::optional<optrt::BestEvaluation>
      best; ///< of this run and those before it
  const optrt::Function *evalFunction =
      nullptr; ///< or null: nothing is evaluated
  bool healthIsCounted = false, saidThatDataChanged = false,
       contentsAreCompared = false;
  /// The end of the run after the current step, and its reason.
  Status ending;
  int signal = 0;
  /// How it ended, where the status alone does not tell.
  std::optional<RunEnd> reason;
  bool endIsLogged = false;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINING_H
