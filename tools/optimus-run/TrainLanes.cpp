//===- TrainLanes.cpp - optimus-run train --lanes -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchReader.h"
#include "Report.h"
#include "Training.h"
#include "optimus-runtime/Exception.h"
#include "tooling/StepScalars.h"

#include <chrono>
#include <csignal>
#include <cstdio>

using namespace optrt;

namespace optimus_run {
namespace {

/// Runs that take their steps together, each in a lane of one session.
class LaneTraining {
public:
  LaneTraining(const std::vector<TrainLane> &lanes, World &world)
      : lanes(lanes), world(world), control(*world.control) {}

  StatusOr<int> run();

private:
  Status open();
  Status begin();
  StatusOr<int> steps();
  Status takeStep();
  void end(Training &lane, const Interruption &stop, Status outcome);
  void endAll(const Interruption &stop, const Status &outcome);
  /// Those that go on; ended ones are forgotten.
  template <typename Fn>
  void forEach(Fn &&act);

  const std::vector<TrainLane> &lanes;
  World &world;
  ControlPlane &control; ///< the world's
  std::shared_ptr<const ModelLibrary> library;
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<Training>> running;
  std::string sequence;
  int64_t microbatches = 1;
  bool memoryIsSaid = false;
  SubnormalWatch subnormals; ///< of steps of all, since none knows whose it was
  int64_t taken = 0;         ///< of these, by this run
  std::string failed;                     ///< lanes, as a list
  StatusCode code = StatusCode::Internal; ///< of the first of these
  BatchReader reader;
};

} // namespace

StatusOr<int> LaneTraining::run() {
  OPTRT_RETURN_IF_ERROR(open());
  // Whatever ends all of them, their logs say so.
  auto abandon = [&](const Status &status) {
    for (const std::unique_ptr<Training> &lane : running)
      lane->abandon(status);
  };
  try {
    Status begun = begin();
    if (begun.ok())
      return steps();
    abandon(begun);
    return begun;
  } catch (...) {
    abandon(statusOfException());
    throw;
  }
}

StatusOr<int> LaneTraining::steps() {
  // Until all is saved.
  StopSignals signals;
  Interruption stop;
  while (!running.empty() && !stop) {
    stop = StopSignals::agreed(control, okStatus(), "");
    if (stop)
      endAll(stop, okStatus());
    else if (Status status = takeStep(); !status.ok())
      endAll(stop, status);
  }
  if (!failed.empty())
    return Status(code, concat("of ", lanes.size(), " lanes failed: ", failed));
  return stop.signal;
}

Status LaneTraining::open() {
  if (control.size() != 1)
    return invalidArgument(
        concat("--lanes: expected a job of one rank, found ", control.size()));
  const TrainOptions &first = lanes.front().options;
  OPTRT_ASSIGN_OR_RETURN(library, first.ranks.openLibrary(first.library));
  if (const int64_t ranks = library->manifest().mesh.numRanks(); ranks != 1)
    return invalidArgument(concat(
        "--lanes: expected a library of one rank, found `", first.library,
        "` with the mesh ", library->manifest().mesh.toString(),
        "; compile it with --mesh row:1,col:1 --lanes ", lanes.size()));
  for (const TrainLane &lane : lanes) {
    if (!lane.options.profile.empty())
      return invalidArgument("--lanes: expected no --profile beside it, which "
                             "is of commands of one run");
    if (lane.options.saveAsync.value_or(false))
      return invalidArgument("--lanes: expected no --save-async beside it; a "
                             "snapshot is of one run");
    running.push_back(
        std::make_unique<Training>(lane.options, world, lane.name));
    OPTRT_RETURN_IF_ERROR(running.back()->open(library).withContext(lane.name));
  }
  return okStatus();
}

Status LaneTraining::begin() {
  const TrainOptions &first = lanes.front().options;
  SessionOptions chosen = sessionOptions({}, first.ranks);
  chosen.lanes = std::ssize(lanes);
  for (const std::unique_ptr<Training> &lane : running) {
    const std::optional<int64_t> before = chosen.documentEnd;
    OPTRT_RETURN_IF_ERROR(lane->choose(chosen).withContext(lane->label()));
    if (lane != running.front() && chosen.documentEnd != before)
      return invalidArgument(concat(
          lane->label(), ": the last token of its documents is another than ",
          running.front()->label(),
          "'s; expected one, as lanes have one program"));
  }
  microbatches = running.front()->microbatches();
  for (const std::unique_ptr<Training> &lane : running)
    if (lane->microbatches() != microbatches)
      return invalidArgument(
          concat(lane->label(), ": its checkpoint has --microbatches ",
                 lane->microbatches(), ", ", running.front()->label(), " ",
                 microbatches, "; give one number beside --lanes, for all"));
  sequence = sequenceFor(microbatches);
  OPTRT_ASSIGN_OR_RETURN(session, Session::create(*library, world, chosen));
  std::printf("%s: %zu lanes, %s\n", first.library.c_str(), lanes.size(),
              describeRanks(world, *session).c_str());
  printWarnings(world, *session);
  for (std::size_t i = 0; i != running.size(); ++i) {
    session->chooseLane(static_cast<int64_t>(i));
    OPTRT_RETURN_IF_ERROR(running[i]
                              ->begin(*session, static_cast<int64_t>(i))
                              .withContext(lanes[i].name));
  }
  // Whatever has no step left ends before the first.
  forEach([&](Training &lane) {
    if (lane.isOver())
      end(lane, {}, okStatus());
  });
  return okStatus();
}

template <typename Fn>
void LaneTraining::forEach(Fn &&act) {
  for (const std::unique_ptr<Training> &lane : running)
    act(*lane);
  std::erase_if(running, [](const auto &lane) { return lane->hasFinished(); });
}

void LaneTraining::end(Training &lane, const Interruption &stop,
                       Status outcome) {
  Status status = lane.finish(stop, std::move(outcome));
  if (Status ended = session->endLane(lane.lane()); status.ok())
    status = std::move(ended);
  if (status.ok())
    return;
  printFailure(status.withContext(lane.label()));
  if (failed.empty())
    code = status.code();
  failed += concat(failed.empty() ? "" : ", ", lane.label());
}

void LaneTraining::endAll(const Interruption &stop, const Status &outcome) {
  forEach([&](Training &lane) { end(lane, stop, outcome); });
}

/// A failure is of all lanes.
Status LaneTraining::takeStep() {
  forEach([&](Training &lane) {
    if (Interruption stop{0, lane.prepare(), {}}; stop)
      end(lane, stop, okStatus());
  });
  if (running.empty())
    return okStatus();
  std::vector<std::span<const CallInputs>> inputs;
  for (const std::unique_ptr<Training> &lane : running)
    inputs.push_back(lane->beginStep());
  const Training::Clock::time_point begun = Training::Clock::now();
  StatusOr<StepOutputs> outputs = reader.run(
      *session,
      [&] { return session->submitLanes(sequence, microbatches, inputs); },
      [&] {
        for (const std::unique_ptr<Training> &lane : running)
          lane->readAhead();
      });
  OPTRT_RETURN_IF_ERROR(outputs.status());
  if (!std::exchange(memoryIsSaid, true))
    printMemory(session->largestRankMemory());
  const std::chrono::duration<double, std::milli> took =
      reader.callEnded() - begun;
  if (auto text =
          subnormals.after(++taken, took.count(), session->hadSubnormals()))
    std::fprintf(stderr, "optimus-run: warning: some lane's %s\n",
                 text->c_str());
  forEach([&](Training &lane) {
    Status status = lane.endStep(reader.callEnded());
    if (!status.ok() || lane.isOver())
      end(lane, {}, std::move(status));
  });
  return okStatus();
}

StatusOr<int> trainLanes(const std::vector<TrainLane> &lanes, World &world) {
  std::signal(SIGPIPE, SIG_IGN);
  return LaneTraining(lanes, world).run();
}

} // namespace optimus_run
