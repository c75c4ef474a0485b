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
using optimus_support::ElementType;

namespace optimus_run {
namespace {

/// A loss or norm that is not finite; the sign of a NaN means nothing.
std::string notFinite(double value) {
  return std::isnan(value) ? "nan" : format("%g", value);
}

/// What all processes know of data at once.
std::string describe(const DataIdentity &data) {
  return concat(data.tokens, " tokens of type ", toString(data.type),
                " with hash ", optimus_support::hashToHex(data.sample),
                " of a sample");
}

/// The outcome of a save, once it is over.
StatusOr<bool> overWith(Status status) {
  return status.ok() ? StatusOr<bool>(true) : StatusOr<bool>(status);
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
  if (name.empty())
    return;
  session->chooseLane(number);
  session->setSaveFormat(savedAs);
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
  OPTRT_RETURN_IF_ERROR(control.checkSame(settings()));
  savedAs = saveFormat();
  session->setSaveFormat(savedAs);
  enter();
  OPTRT_RETURN_IF_ERROR(control.agree(beginState()));
  files.checkpoint.reset();
  // A snapshot is of one lane.
  if (options.saveEvery > 0 && options.saveAsync.value_or(name.empty())) {
    OPTRT_ASSIGN_OR_RETURN(
        savesBehind,
        session->reserveSnapshot(options.save, options.saveAsync.has_value()));
  }
  return okStatus();
}

SaveFormat Training::saveFormat() {
  SaveFormat format;
  format.companions = std::move(files.companions);
  format.base = std::move(files.base);
  if (options.saveFormat.type)
    format.modelType = *options.saveFormat.type;
  if (options.saveFormat.shardBytes)
    format.shardLimitBytes = *options.saveFormat.shardBytes;
  return format;
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

/// What would make ranks take different steps, or stop at different ones.
std::vector<Setting> Training::settings() const {
  std::vector<Setting> list;
  for (const auto &[info, value] : listHyperparameters(plan().hyperparameters))
    list.push_back({info.flag(), value});
  list.insert(
      list.end(),
      {{"--seed", concat(plan().seed)},
       {"--order", plan().order},
       {"--save or --save-every",
        concat(options.save.empty() ? "nowhere " : "saved ",
               options.saveEvery)},
       {"--until", options.until ? concat(*options.until) : "none"},
       {"--save-dtype or --save-shard",
        concat(toString(options.saveFormat.type.value_or(ElementType::F32)),
               ", files of ", options.saveFormat.shardBytes.value_or(0))},
       {"--save-async or --no-save-async", !options.saveAsync   ? "neither"
                                           : *options.saveAsync ? "on"
                                                                : "off"},
       {"--eval-data or --eval-every",
        concat(files.evalData ? describe(files.evalData->identity()) : "none",
               ", every ", options.evalEvery)},
       {"--keep-best or --patience",
        concat(options.keepBest.empty() ? "nothing kept" : "the best kept",
               ", patience ", options.patience)},
       {"samples", files.samples.describe()},
       {"--check-replicas", concat(options.checkReplicas)},
       {"whether there is --log-json", concat(!options.logJson.empty())},
       {"--timeout", concat(options.ranks.timeoutSeconds)},
       {"whether --placement is dynamic",
        concat(options.ranks.placement == Placement::Dynamic)},
       {"the data", describe(files.data->identity())},
       {"--document-end",
        files.documentEnd ? concat(*files.documentEnd) : "none"},
       {"where reading begins", concat(plan().firstPosition)}});
  return list;
}

void Training::announce() const {
  std::printf("%s: %s parameters, %s; %s\n", options.library.c_str(),
              formatCount(manifest().numParamElements()).c_str(),
              describeStrategy(manifest()).c_str(),
              describeRanks(world, *session).c_str());
  std::printf("%s: %s tokens, %lld windows of %lld; batch %lld, %s, seed "
              "%llu\n",
              options.data.path.c_str(),
              formatCount(files.data->numTokens()).c_str(),
              static_cast<long long>(files.data->numWindows()),
              static_cast<long long>(manifest().sequence),
              static_cast<long long>(batch()), plan().order.c_str(),
              static_cast<unsigned long long>(plan().seed));
  announceStart();
}

void Training::announceStart() const {
  if (!control.isRoot())
    return;
  const int64_t done = plan().firstStep - 1;
  if (done > 0)
    say(concat(files.start.folder, ": going on after step ", done));
  else if (!files.start.goesOn)
    say(concat(files.start.folder,
               ": its parameters, and a new state of the optimizer ",
               manifest().optimizer, ": training begins at step 0"));
  else if (options.resume && files.start.folder.empty())
    say(concat(options.save, ": no checkpoint yet, training begins"));
  if (options.ranks.computing.tf32)
    say("products of f32 are in TF32");
  for (const std::string &note : plan().notes)
    say(note);
  auto isDone = [&](const char *flag, int64_t steps) {
    say(concat("the checkpoint is at step ", done,
               " already: nothing to train with ", flag, " ", steps,
               "; a larger number goes on"));
  };
  if (done >= lastStep() && lastStep() > 0)
    isDone("--steps", lastStep());
  else if (done >= finalStep() && lastStep() > 0)
    isDone("--until", finalStep());
  std::fflush(stdout);
}

/// A line of standard output, with the lane before it.
void Training::say(const std::string &line) const {
  std::printf("%s%s\n", name.empty() ? "" : (name + ": ").c_str(),
              line.c_str());
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
  if (!options.save.empty() && reached != lastSaved) {
    savesBehind = false;
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

Status Training::endStep() {
  enter();
  OPTRT_ASSIGN_OR_RETURN(const StepOutputs outputs, session->outputs());
  OPTRT_RETURN_IF_ERROR(calls->end(reached + 1));
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
  OPTRT_RETURN_IF_ERROR(saved(session->pollSave()));
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
  StateBefore before{files.start.folder, files.start.goesOn,
                     plan().firstStep - 1};
  if (lastSaved >= 0)
    before = {options.save, /*goesOn=*/true, lastSaved};
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
  saving = reached;
  if (!savesBehind)
    return saved(overWith(session->save(options.save, state())));
  Status begun = session->beginSave(options.save, state());
  return begun.ok() ? okStatus() : saved(begun);
}

/// Notes the outcome of a save: the checkpoint is in place, or why it will not
/// be.
Status Training::saved(const StatusOr<bool> &over) {
  if (!saving || (over.ok() && !*over))
    return okStatus();
  const int64_t step = *std::exchange(saving, std::nullopt);
  if (!over.ok())
    return over.status()
        .withContext(concat("--save after step ", step))
        .withAdvice(wayOn());
  lastSaved = step;
  return okStatus();
}

Status Training::finishSave() {
  return saving ? saved(overWith(session->finishSave())) : okStatus();
}

/// From where the run can go on, if from anywhere.
std::string Training::wayOn() const {
  const bool hasSaved = lastSaved >= 0;
  const std::string &folder = hasSaved ? options.save : files.start.folder;
  if (folder.empty() || (!hasSaved && !files.start.goesOn))
    return "";
  return concat("go on from step ", hasSaved ? lastSaved : plan().firstStep - 1,
                " with ", howToLoad(folder));
}

/// The flags of a run that goes on from a folder.
std::string Training::howToLoad(const std::string &folder) const {
  return options.resume ? "the same command" : concat("--load ", folder);
}

void Training::summarize() const {
  if (last.step > 0) {
    int64_t timedSteps = last.step - plan().firstStep;
    double rate = timedSteps > 0
                      ? static_cast<double>(timedSteps * batchTokens()) /
                            secondsAfterFirst
                      : last.tokensPerSecond;
    say(format("final loss %.6f, %.0f tokens/s", last.loss, rate));
  }
  // Of the lanes all together, whoever has the session says it.
  if (last.step > 0 && name.empty()) {
    printCommunication(manifest().mesh, calls->traffic());
    printMemory(largestRank);
    if (session->isPaging())
      printPaging(calls->paging());
    const CacheUse cache = files.data->cacheUse();
    if (const int64_t read = cache.hits + cache.misses; options.data.cacheBytes)
      std::printf("data cache: %s kept, %.1f %% of what was read was in it\n",
                  formatBytes(cache.kept).c_str(),
                  100.0 * double(cache.hits) /
                      double(std::max<int64_t>(read, 1)));
  }
  if (!options.save.empty())
    say("saved to " + options.save);
  if (best && (options.patience > 0 || !options.keepBest.empty()))
    say(format("the least held-out loss, %.6f, is that of step %lld%s%s",
               best->loss, static_cast<long long>(best->step),
               options.keepBest.empty() ? "" : ", in ",
               options.keepBest.c_str()));
  if (!signal && reached < lastStep() && isOutOfPatience())
    say(concat("stopped after step ", reached, " of ", lastStep(), ": ",
               best->evaluationsSince, " evaluations found no better loss"));
  else if (!signal && reached < lastStep())
    say(concat("stopped after step ", reached, " of ", lastStep(),
               ", as --until says; go on with ", howToLoad(options.save),
               " and another --until, or none"));
  if (!signal)
    return;
  std::fflush(stdout);
  std::string next = options.save.empty()
                         ? "nothing was saved; --save keeps a run that is "
                           "stopped"
                         : "go on with " + howToLoad(options.save);
  std::fprintf(stderr,
               "optimus-run: %sstopped by %s after step %lld of %lld; %s\n",
               name.empty() ? "" : (name + ": ").c_str(),
               signalName(signal).c_str(), static_cast<long long>(reached),
               static_cast<long long>(lastStep()), next.c_str());
}

StatusOr<int> train(const TrainOptions &options, World &world) {
  // Whoever reads what is printed, or the log, may end before the run does.
  std::signal(SIGPIPE, SIG_IGN);
  return Training(options, world).run();
}

} // namespace optimus_run
