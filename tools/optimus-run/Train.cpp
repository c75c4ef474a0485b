//===- Train.cpp - optimus-run train --------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Training.h"

#include "Divergence.h"
#include "Format.h"
#include "JsonLine.h"
#include "Report.h"
#include "RunFacts.h"
#include "TuningFile.h"
#include "optimus-runtime/Exception.h"
#include "optimus-support/Hash.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

using namespace optrt;

namespace optimus_run {
namespace {

/// A loss or norm that is not finite; the sign of a NaN means nothing.
std::string notFinite(double value) {
  return std::isnan(value) ? "nan" : format("%g", value);
}

} // namespace

Status Training::open(std::shared_ptr<const ModelLibrary> library) {
  files.library = std::move(library);
  OPTRT_RETURN_IF_ERROR(files.open(options, control));
  reached = plan().firstStep - 1;
  return okStatus();
}

StatusOr<int> Training::run() {
  OPTRT_RETURN_IF_ERROR(open());
  try {
    StatusOr<int> outcome = trainAndReport();
    logEnd(outcome.status());
    return outcome;
  } catch (...) {
    logEnd(statusOfException());
    throw;
  }
}

StatusOr<int> Training::trainAndReport() {
  OPTRT_RETURN_IF_ERROR(control.agree(profile.open(options, plan(), control))
                            .withContext("--profile"));
  OPTRT_RETURN_IF_ERROR(prepareSession());
  if (control.isRoot())
    announce();
  printWarnings(world, *session);
  OPTRT_RETURN_IF_ERROR(beginLog());
  OPTRT_RETURN_IF_ERROR(
      control.agree(profile.describe(options, *session, world))
          .withContext("--profile"));
  return report(steps());
}

Status Training::beginLog() {
  OPTRT_RETURN_IF_ERROR(
      control.agree(files.log.begin()).withContext("--log-json"));
  start = Clock::now();
  beginning = describeBeginning(options, files, world, *session) + '\n';
  return okStatus();
}

/// Says how the run ended, and closes what it wrote.
StatusOr<int> Training::report(Status outcome) {
  if (outcome.ok() && control.isRoot())
    summarize();
  logEnd(outcome);
  Status logged = control.agree(files.log.finish()).withContext("--log-json");
  Status recorded =
      control.agree(profile.finish(outcome, signal)).withContext("--profile");
  warnOfProfile();
  for (const Status &status : {logged, recorded})
    if (outcome.ok() && !signal)
      outcome = status;
    else if (!status.ok() && control.isRoot())
      printFailure(status);
  OPTRT_RETURN_IF_ERROR(outcome);
  return signal;
}

/// Hands on the failure of some rank: where this process ends with it, the
/// profile is finished before. What is being saved is lost with other
/// processes, and finished where there are none.
Status Training::failJob(const Status &status) {
  if (control.numLocalRanks() == control.size())
    if (Status last = finishSave(); !last.ok())
      printFailure(last);
  (void)profile.finish(status, /*signal=*/0);
  logEnd(status);
  return optimus_run::failJob(control, status.withAdvice(wayOn()));
}

/// Ends the run by a failure of all processes, after the save under way.
Status Training::end(Status status) {
  if (status.ok())
    return status;
  if (Status last = finishSave(); !last.ok() && control.isRoot())
    printFailure(last);
  return std::move(status).withAdvice(wayOn());
}

Status Training::diverged(std::string message) {
  reason = RunEnd::Diverged;
  return end(invalidArgument("training diverged: " + std::move(message)));
}

/// The last line of the log, once. Where finish() cannot write it either, the
/// run fails.
void Training::logEnd(const Status &status) {
  if (std::exchange(endIsLogged, true))
    return;
  if (status.ok() && (signal || reached < lastStep()))
    reason = !signal && isOutOfPatience() ? RunEnd::Patience : RunEnd::Stopped;
  const Status logged = files.log.appendEnd(
      std::exchange(beginning, "") +
      describeEnd(reason.value_or(endOf(status)), reached, status));
  if (!logged.ok())
    std::fprintf(stderr, "optimus-run: warning: --log-json: %s\n",
                 logged.message().c_str());
}

/// Every process has a file of its own, and a disk of its own perhaps.
void Training::warnOfProfile() {
  std::optional<std::string> warning = profile.warning();
  if (warning && progress && control.isRoot())
    progress->warn(*warning);
  else if (warning)
    std::fprintf(stderr, "optimus-run: warning: %s\n", warning->c_str());
}

Status Training::begin(Session &shared, int64_t lane) {
  session = &shared;
  number = lane;
  OPTRT_RETURN_IF_ERROR(prepareState());
  announceStart();
  OPTRT_RETURN_IF_ERROR(beginLog());
  progress.emplace(control.isRoot(), plan().firstStep, lastStep(), name);
  return okStatus();
}

/// Of a lane, the session is about it from here on.
void Training::enter() {
  if (!name.empty())
    session->chooseLane(number);
  saves->choose();
}

Status Training::choose(SessionOptions &chosen) {
  chosen.sequences = {sequenceFor(plan().hyperparameters.microbatches)};
  // For checkHealth() too.
  if (files.evalData ||
      (!options.save.empty() && manifest().has(EntryKind::Eval))) {
    StatusOr<const Function *> found =
        manifest().findEntry(options.library, EntryKind::Eval);
    OPTRT_RETURN_IF_ERROR(control.agree(found.status()));
    evalFunction = *found;
    if (std::ranges::find(chosen.functions, evalFunction->name) ==
        chosen.functions.end())
      chosen.functions.push_back(evalFunction->name);
  }
  files.samples.choose(chosen);
  chosen.timesCommunication |= !options.logJson.empty();
  chosen.documentEnd = files.documentEnd;
  return okStatus();
}

Status Training::prepareSession() {
  SessionOptions chosen = sessionOptions({}, options.ranks);
  OPTRT_RETURN_IF_ERROR(choose(chosen));
  profile.observe(chosen);
  OPTRT_ASSIGN_OR_RETURN(ownSession,
                         createSession(*files.library, world, std::move(chosen),
                                       options.ranks.tune));
  session = ownSession.get();
  return prepareState();
}

Status Training::prepareState() {
  calls.emplace(files, *session, control,
                /*timesCommunication=*/!options.logJson.empty());
  OPTRT_RETURN_IF_ERROR(control.checkSame(listSettings(options, files)));
  saves.emplace(options, files, *session);
  enter();
  OPTRT_RETURN_IF_ERROR(control.agree(beginState()));
  files.checkpoint.reset();
  return saves->reserve(/*alone=*/name.empty());
}

Status Training::beginState() {
  if (!files.checkpoint)
    return session->initialize(plan().seed);
  if (files.start.goesOn) {
    best = files.checkpoint->state().best;
    return session->load(*files.checkpoint);
  }
  return session->loadParameters(*files.checkpoint, plan().seed);
}

Status Training::steps() {
  // Until all is saved.
  StopSignals signals;
  Interruption stop;
  progress.emplace(control.isRoot(), plan().firstStep, lastStep());
  const Status status = takeSteps(stop);
  progress.reset();
  OPTRT_RETURN_IF_ERROR(status);
  return finishSteps(stop);
}

Status Training::takeSteps(Interruption &stop) {
  while (!isOver()) {
    // No rank begins a step until all have its batches.
    stop =
        StopSignals::agreed(control, prepare(), calls->agreement().digests());
    if (!stop)
      stop.failure = calls->agreement().compare(stop.notes);
    if (stop)
      break;
    OPTRT_RETURN_IF_ERROR(oneStep());
  }
  return okStatus();
}

Status Training::prepare() {
  const Clock::time_point begin = Clock::now();
  Status read = ending.ok() ? calls->prepare(reached + 1) : ending;
  reading = Clock::now() - begin;
  return read;
}

Status Training::finishSteps(const Interruption &stop) {
  OPTRT_RETURN_IF_ERROR(finishSave());
  if (!options.save.empty() && saves->lastStep() != reached) {
    saves->saveAtOnce();
    OPTRT_RETURN_IF_ERROR(save());
  }
  signal = stop.signal;
  const Status &failure = stop.failure.ok() ? ending : stop.failure;
  if (!failure.ok() && failure.code() != StatusCode::Internal)
    reason = RunEnd::Data;
  return failure.withAdvice(concat("the run ends after step ", reached))
      .withAdvice(wayOn());
}

Status Training::finish(const Interruption &stop, Status outcome) {
  enter();
  progress.reset();
  if (outcome.ok())
    outcome = finishSteps(stop);
  return report(std::move(outcome)).status();
}

/// When the data's hash is there, it is compared with the loaded checkpoint's:
/// a sample does not see every difference.
void Training::compareContents() {
  const std::optional<uint64_t> &expected = plan().expectedContents;
  if (!expected || contentsAreCompared)
    return;
  const std::optional<uint64_t> contents = files.data->identity().contents;
  contentsAreCompared = contents.has_value();
  if (contents && *contents != *expected)
    progress->warn(concat("the data is not what ", files.start.folder,
                          " was trained on: ", options.data.path,
                          " has other contents, with hash ",
                          optimus_support::hashToHex(*contents), ", was ",
                          optimus_support::hashToHex(*expected)));
}

std::span<const CallInputs> Training::beginStep() {
  enter();
  setStepScalars();
  return calls->begin();
}

Status Training::endStep(Clock::time_point callEnded) {
  enter();
  OPTRT_ASSIGN_OR_RETURN(const StepOutputs outputs, session->outputs());
  OPTRT_RETURN_IF_ERROR(calls->end(reached + 1, callEnded));
  return took(outputs);
}

/// Those of the step that follows.
void Training::setStepScalars() {
  const Hyperparameters &hyper = plan().hyperparameters;
  const int64_t step = reached + 1;
  setScalars(*session, hyper, step, hyper.rate.at(step, hyper.steps));
  // What ranks agree on between the two is no part of a step.
  stepStart = Clock::now() - reading;
}

Status Training::oneStep() {
  const int64_t step = reached + 1;
  setStepScalars();
  profile.beginStep(step);
  StatusOr<StepOutputs> outputs = calls->run(step);
  if (outputs.ok())
    profile.endStep();
  warnOfProfile();
  OPTRT_RETURN_IF_ERROR(calls->miscounted());
  if (!outputs.ok())
    return failJob(outputs.status());
  return took(*outputs);
}

/// Goes on from a step that was taken.
Status Training::took(const StepOutputs &outputs) {
  OPTRT_RETURN_IF_ERROR(examine(outputs));
  OPTRT_RETURN_IF_ERROR(saves->poll());
  if (options.checkReplicas > 0 && reached % options.checkReplicas == 0)
    OPTRT_RETURN_IF_ERROR(end(session->compareReplicas().withContext(
        concat("--check-replicas after step ", reached))));
  if (options.saveEvery > 0 && reached % options.saveEvery == 0)
    OPTRT_RETURN_IF_ERROR(save());
  compareContents();
  if (!saidThatDataChanged && files.data->wasWrittenTo()) {
    saidThatDataChanged = true;
    progress->warn(options.data.path + " was written to since the run began: "
                                       "batches are of what it has now");
  }
  return okStatus();
}

/// Tells of a step, evaluates it, and finds out whether it diverged.
Status Training::examine(const StepOutputs &outputs) {
  const Hyperparameters &hyper = plan().hyperparameters;
  const int64_t step = reached + 1;
  const double lr = hyper.rate.at(step, hyper.steps);
  const double seconds =
      std::chrono::duration<double>(calls->ended() - stepStart).count();

  reached = step;
  last = {
      step, outputs.meanLoss(), outputs.gradNorm(),
      lr,   1e3 * seconds,      static_cast<double>(batchTokens()) / seconds};
  if (step > plan().firstStep)
    secondsAfterFirst += seconds;
  else
    for (const Traffic &axis : calls->traffic())
      bytesOfAStep += axis.bytes;
  if (step == plan().firstStep || step == finalStep())
    largestRank = session->largestRankMemory();
  progress->step(last);
  // Of lanes none knows whose they were: TrainLanes.cpp watches all.
  if (auto text = subnormals.after(step, last.milliseconds,
                                   name.empty() && session->hadSubnormals()))
    progress->warn(*text);

  std::optional<Evaluation> evaluation;
  bool finite = std::isfinite(last.loss) && std::isfinite(last.gradNorm);
  if (finite)
    OPTRT_RETURN_IF_ERROR(evaluateAfter(step, evaluation));
  nlohmann::ordered_json samples;
  if (finite)
    OPTRT_RETURN_IF_ERROR(sampleAfter(step, samples));
  if (files.log.isOpen())
    logStep(evaluation, samples);
  if (finite)
    return okStatus();
  const std::string cause = causeOf(step);
  return diverged(concat("at step ", step, " the loss is ",
                         notFinite(last.loss), " and the gradient's norm ",
                         notFinite(last.gradNorm), cause, "; lower --lr (",
                         hyper.rate.peak, "), raise --warmup or lower --clip"));
}

/// Why a step was not finite: it is taken again from the last state that was
/// saved, loaded or made. Says so where that is too long ago. The session is
/// gone then.
std::string Training::causeOf(int64_t step) {
  if (!name.empty())
    return " (a run of it alone says why)";
  if (!finishSave().ok())
    return "";
  const SavedState before = saves->latest();
  if (step - before.step > kMostStepsAgain)
    return concat(" (--save-every of at most ", kMostStepsAgain,
                  " steps lets a run say why)");
  progress->note(concat("step ", step,
                        " is not finite: it is taken again from "
                        "step ",
                        before.step));
  calls.reset();
  session = nullptr;
  ownSession.reset();
  StatusOr<std::string> why = whyNotFinite(options, files, world, before, step);
  return why.ok()
             ? "; " + *why
             : concat(" (why was not found: ", why.status().message(), ")");
}

/// Evaluates if it is time to.
Status Training::evaluateAfter(int64_t step,
                               std::optional<Evaluation> &evaluation) {
  bool isDue = step == finalStep() ||
               (options.evalEvery > 0 && step % options.evalEvery == 0);
  if (!files.evalData || !isDue)
    return okStatus();
  StatusOr<Evaluation> result =
      evaluate(*session, control, *files.evalData, *evalFunction);
  if (!result.ok() && !session->canGoOn())
    return failJob(result.status());
  ending = result.status();
  if (!ending.ok())
    return okStatus();
  evaluation = *result;
  progress->note(format("step %lld: loss %.6f on %s",
                        static_cast<long long>(step), evaluation->loss,
                        files.evalData->path().c_str()));
  return judge(*evaluation, step);
}

/// Notes the best evaluation so far, and keeps its state.
Status Training::judge(const Evaluation &evaluation, int64_t step) {
  const bool isBetter =
      std::isfinite(evaluation.loss) && (!best || evaluation.loss < best->loss);
  if (!isBetter) {
    if (best)
      ++best->evaluationsSince;
    return okStatus();
  }
  best = BestEvaluation{evaluation.loss, step, /*evaluationsSince=*/0};
  return options.keepBest.empty() ? okStatus() : keepBest();
}

/// Not behind steps: an evaluation took longer.
Status Training::keepBest() {
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_RETURN_IF_ERROR(checkHealth());
  return end(session->save(options.keepBest, state())
                 .withContext(concat("--keep-best after step ", reached)));
}

/// Generates texts if it is time to.
Status Training::sampleAfter(int64_t step, nlohmann::ordered_json &samples) {
  if (!files.samples.areDueAfter(step))
    return okStatus();
  auto written = files.samples.write(*session, control);
  if (!written.ok())
    return session->canGoOn() ? end(written.status())
                              : failJob(written.status());
  samples = std::move(*written);
  for (const nlohmann::ordered_json &sample : samples)
    // Bytes that are no characters are replaced.
    progress->note(format("step %lld: %s", static_cast<long long>(step),
                          toLine(sample).c_str()));
  return okStatus();
}

void Training::logStep(const std::optional<Evaluation> &evaluation,
                       const nlohmann::ordered_json &samples) {
  nlohmann::ordered_json line;
  line["step"] = last.step;
  line["loss"] = last.loss;
  line["grad_norm"] = last.gradNorm;
  line["lr"] = last.lr;
  line["ms"] = last.milliseconds;
  line["tokens_per_s"] = last.tokensPerSecond;
  line["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  line["comm_bytes"] = bytesOfAStep;
  line["peak_bytes"] = largestRank.total();
  using Milliseconds = std::chrono::duration<double, std::milli>;
  line["data_ms"] = Milliseconds(calls->readTime().took).count();
  line["data_spare_ms"] = Milliseconds(calls->readTime().spare).count();
  line["comm_ms"] = 1e3 * calls->communication().inFlight;
  line["comm_exposed_ms"] = 1e3 * calls->communication().exposed;
  if (session->isPaging()) {
    line["paging_bytes"] = calls->paging().bytesIn + calls->paging().bytesOut;
    line["paging_ms"] = 1e3 * calls->paging().seconds;
    line["paging_exposed_ms"] = 1e3 * calls->paging().exposed;
  }
  if (evaluation)
    line["eval_loss"] = evaluation->loss;
  if (!samples.is_null())
    line["samples"] = samples;
  const std::string text = toLine(line);
  const Status status = files.log.append(std::exchange(beginning, "") + text);
  if (!status.ok())
    progress->warn(concat("--log-json: ", status.message(),
                          "; training goes on, and lines are kept until there "
                          "is room for them"));
}

/// The update of a step can make a state from which none can be taken, though
/// each of its numbers is finite. Only the next loss shows it. So the loss of
/// the present batch is computed before a good checkpoint is replaced.
Status Training::checkHealth() {
  if (last.step == 0 || !evalFunction)
    return okStatus();
  StatusOr<StepOutputs> outputs = session->run(evalFunction->name);
  if (!outputs.ok())
    return failJob(outputs.status());
  if (!std::exchange(healthIsCounted, true))
    OPTRT_RETURN_IF_ERROR(end(session->checkTraffic(evalFunction->name)));
  if (std::isfinite(outputs->meanLoss()))
    return okStatus();
  return diverged(concat("after the update of step ", reached, " the loss is ",
                         notFinite(outputs->meanLoss()),
                         ", and that state is not saved; lower --lr (",
                         plan().hyperparameters.rate.peak,
                         "), raise --warmup or lower --clip"));
}

TrainingState Training::state() const {
  TrainingState state;
  state.step = reached;
  state.seed = plan().seed;
  state.dataPosition = plan().positionBefore(reached + 1, batch());
  state.order = plan().order;
  state.data = files.describeData();
  state.data->position = state.dataPosition * manifest().sequence;
  state.hyperparameters = plan().hyperparameters;
  state.best = best;
  return state;
}

Status Training::save() {
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_RETURN_IF_ERROR(checkHealth());
  return saves->save(state());
}

Status Training::finishSave() { return saves ? saves->finish() : okStatus(); }

std::string Training::wayOn() const { return saves ? saves->wayOn() : ""; }

StatusOr<int> train(const TrainOptions &options, World &world) {
  // Whoever reads what is printed, or the log, may end before the run does.
  std::signal(SIGPIPE, SIG_IGN);
  return Training(options, world).run();
}

} // namespace optimus_run
