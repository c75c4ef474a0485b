//===- Train.cpp - optimus-run train --------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evaluation.h"
#include "Format.h"
#include "Progress.h"
#include "Report.h"
#include "StopSignals.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace optrt;

namespace optimus_run {
namespace {

/// One training run: what it reads, what it writes, and where it stands.
class Training {
public:
  Training(const TrainOptions &options, World &world)
      : options(options), world(world) {}

  /// The signal that ended it early, or 0.
  StatusOr<int> run();

private:
  Status openLibrary();
  Status takeCheckpoint();
  Status openData();
  Status openOutputs();
  Status prepareSession();
  std::vector<Setting> settings() const;
  std::string fingerprint() const;
  void announce() const;
  Status steps();
  void addCommunicationTime();
  StatusOr<StepOutputs> runStep(int64_t step);
  Status oneStep(int64_t step, Progress &progress);
  Status countTraffic(std::string_view function);
  Status observeFirstStep();
  Status save(int64_t step);
  void summarize() const;

  /// Sequences of a step, all microbatches together.
  int64_t batch() const {
    return library->manifest().batch * options.microbatches;
  }
  int64_t batchTokens() const { return batch() * library->manifest().sequence; }

  const TrainOptions &options;
  World &world;
  std::unique_ptr<ModelLibrary> library;
  std::unique_ptr<Dataset> data, evalData;
  std::unique_ptr<Checkpoint> checkpoint;
  std::ofstream log;
  std::unique_ptr<Session> session;

  uint64_t seed = 0;
  std::string order = "shuffled";
  int64_t firstStep = 1;
  /// The data's position before the first step, in sequences.
  int64_t firstPosition = 0;

  std::vector<Traffic> traffic;
  CommunicationTime communication; ///< of the last step
  int64_t bytesOfAStep = 0;
  RankMemory largestRank;
  StepReport last;
  double secondsAfterFirst = 0;
  std::string warning;
  int signal = 0;
};

StatusOr<int> Training::run() {
  OPTRT_RETURN_IF_ERROR(world.agree(openLibrary()));
  OPTRT_ASSIGN_OR_RETURN(checkpoint, openCheckpoint(world, options.load));
  if (checkpoint)
    OPTRT_RETURN_IF_ERROR(world.agree(takeCheckpoint()));
  OPTRT_RETURN_IF_ERROR(world.agree(openData()));
  OPTRT_RETURN_IF_ERROR(prepareSession());
  if (world.isRoot())
    announce();
  warnOfOversubscription(world, *session);
  OPTRT_RETURN_IF_ERROR(steps());
  if (world.isRoot())
    summarize();
  return signal;
}

Status Training::openLibrary() {
  OPTRT_ASSIGN_OR_RETURN(library, ModelLibrary::open(options.library));
  const Manifest &manifest = library->manifest();
  if (options.microbatches > 1 && !manifest.findFunction("accumulate"))
    return invalidArgument(
        concat("--microbatches ", options.microbatches, ": model library `",
               options.library,
               "` cannot add gradients up; compile it with --accumulate"));
  return okStatus();
}

Status Training::openData() {
  const Manifest &manifest = library->manifest();
  if (options.seed)
    seed = *options.seed;
  if (options.order)
    order = *options.order;

  DataOrder dataOrder =
      order == "sequential" ? DataOrder::Sequential : DataOrder::Shuffled;
  OPTRT_ASSIGN_OR_RETURN(data, Dataset::open(options.data, manifest.sequence,
                                             manifest.vocabulary, dataOrder,
                                             seed, manifest.masked));
  if (!options.evalData.empty()) {
    OPTRT_ASSIGN_OR_RETURN(
        evalData, Dataset::open(options.evalData, manifest.sequence,
                                manifest.vocabulary, DataOrder::Sequential,
                                /*seed=*/0, manifest.masked));
  }
  return world.isRoot() ? openOutputs() : okStatus();
}

Status Training::takeCheckpoint() {
  const Manifest &manifest = library->manifest();
  OPTRT_RETURN_IF_ERROR(checkpoint->checkModel(
      manifest.modelHash, tensorInfos(manifest), stateNames(manifest)));
  const TrainingState &state = checkpoint->state();
  seed = state.seed;
  order = state.order;
  firstStep = state.step + 1;
  firstPosition = state.dataPosition;
  if (firstPosition % batch() != 0)
    warning = concat("the checkpoint stopped after ", firstPosition,
                     " sequences, which is no multiple of this run's batch of ",
                     batch(), ": the last incomplete batch is read again");
  return okStatus();
}

/// Finds out before training, not after, that something cannot be written.
Status Training::openOutputs() {
  if (!options.save.empty()) {
    StatusOr<std::unique_ptr<CheckpointWriter>> writer =
        CheckpointWriter::create(options.save);
    if (!writer.ok())
      return writer.status().withContext("--save");
  }
  if (!options.logJson.empty()) {
    log.open(options.logJson);
    if (!log)
      return invalidArgument("--log-json: cannot write to `" + options.logJson +
                             "`");
  }
  return okStatus();
}

Status Training::prepareSession() {
  std::vector<std::string> functions;
  if (options.microbatches > 1)
    functions = {"accumulate", "update"};
  else
    functions = {"train_step"};
  if (evalData)
    functions.push_back("eval_step");
  OPTRT_ASSIGN_OR_RETURN(
      session,
      Session::create(*library, world,
                      sessionOptions(std::move(functions), options.ranks)));
  OPTRT_RETURN_IF_ERROR(world.checkSame(settings()));
  OPTRT_RETURN_IF_ERROR(world.agree(checkpoint ? session->load(*checkpoint)
                                               : session->initialize(seed)));
  checkpoint.reset();
  return okStatus();
}

/// What would make ranks take different steps, or stop at different ones.
std::vector<Setting> Training::settings() const {
  const LearningRate &rate = options.learningRate;
  const Hyperparameters &hyper = options.hyperparameters;
  auto text = [](const auto &...values) {
    std::ostringstream stream;
    stream.precision(17);
    ((stream << values << ' '), ...);
    std::string joined = stream.str();
    joined.pop_back();
    return joined;
  };
  return {{"--steps", text(options.steps)},
          {"--seed", text(seed)},
          {"--order", order},
          {"--lr, --warmup or --schedule",
           text(rate.peak, rate.warmup, static_cast<int>(rate.schedule))},
          {"--weight-decay, --clip, --beta1, --beta2, --epsilon or --momentum",
           text(hyper.weightDecay, hyper.clip, hyper.beta1, hyper.beta2,
                hyper.epsilon, hyper.momentum)},
          {"--microbatches", text(options.microbatches)},
          {"--save or --save-every",
           text(options.save.empty() ? "nowhere" : "saved", options.saveEvery)},
          {"--eval-data or --eval-every",
           text(evalData ? evalData->numTokens() : 0, options.evalEvery)},
          {"whether there is --log-json", text(!options.logJson.empty())},
          {"--timeout", text(options.ranks.timeoutSeconds)},
          {"the data", fingerprint()}};
}

/// The number of tokens and a hash of the run's first batch.
std::string Training::fingerprint() const {
  const Manifest &manifest = library->manifest();
  std::vector<int32_t> tokens(batchTokens()), targets(batchTokens());
  data->fillBatch(firstPosition / manifest.batch, manifest.batch, 0,
                  manifest.batch, tokens.data(), targets.data());
  // FNV-1a.
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::vector<int32_t> *list : {&tokens, &targets})
    for (int32_t token : *list)
      hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
  return concat(data->numTokens(), " tokens whose first batch has hash ",
                format("%016llx", static_cast<unsigned long long>(hash)));
}

void Training::announce() const {
  const Manifest &manifest = library->manifest();
  std::printf("%s: %s parameters, %s; %s\n", options.library.c_str(),
              formatCount(manifest.numParamElements()).c_str(),
              describeStrategy(manifest).c_str(),
              describeRanks(world, *session).c_str());
  std::printf("%s: %s tokens, %lld windows of %lld; batch %lld, %s, seed "
              "%llu\n",
              options.data.c_str(), formatCount(data->numTokens()).c_str(),
              static_cast<long long>(data->numWindows()),
              static_cast<long long>(manifest.sequence),
              static_cast<long long>(batch()), order.c_str(),
              static_cast<unsigned long long>(seed));
  if (firstStep > 1)
    std::printf("%s: going on after step %lld\n", options.load.c_str(),
                static_cast<long long>(firstStep - 1));
  if (!warning.empty())
    std::printf("warning: %s\n", warning.c_str());
  if (firstStep > options.steps && options.steps > 0)
    std::printf("the checkpoint is at step %lld already: nothing to train "
                "with --steps %lld\n",
                static_cast<long long>(firstStep - 1),
                static_cast<long long>(options.steps));
  std::fflush(stdout);
}

Status Training::steps() {
  // The step of the checkpoint that was written last.
  int64_t saved = -1;
  {
    StopSignals signals;
    Progress progress(world.isRoot(), firstStep, options.steps);
    for (int64_t step = firstStep; step <= options.steps && !signal; ++step) {
      OPTRT_RETURN_IF_ERROR(oneStep(step, progress));
      if (options.saveEvery > 0 && step % options.saveEvery == 0) {
        OPTRT_RETURN_IF_ERROR(save(step));
        saved = step;
      }
      signal = signals.agreed(world);
    }
  }
  int64_t end = std::max(last.step, firstStep - 1);
  return options.save.empty() || end == saved ? okStatus() : save(end);
}

/// For the log: of each call the slowest rank's.
void Training::addCommunicationTime() {
  if (options.logJson.empty())
    return;
  SlowestRank slowest = session->communicationTimeOfLastRun();
  communication.inFlight += slowest.total.inFlight;
  communication.exposed += slowest.total.exposed;
}

StatusOr<StepOutputs> Training::runStep(int64_t step) {
  int64_t dataStep = firstPosition / batch() + (step - firstStep);
  if (options.microbatches == 1) {
    session->setRandom(seed, step);
    return session->run("train_step", [&](int64_t rowsBegin, int64_t rowsCount,
                                          int32_t *tokens, int32_t *targets) {
      data->fillBatch(dataStep, batch(), rowsBegin, rowsCount, tokens, targets);
    });
  }
  int64_t size = library->manifest().batch;
  session->clearSums();
  for (int64_t microbatch = 0; microbatch != options.microbatches;
       ++microbatch) {
    session->setRandom(seed, step, static_cast<uint32_t>(microbatch));
    auto fill = [&](int64_t rowsBegin, int64_t rowsCount, int32_t *tokens,
                    int32_t *targets) {
      int64_t real = std::clamp<int64_t>(size - rowsBegin, 0, rowsCount);
      data->fillBatch(dataStep, batch(), microbatch * size + rowsBegin, real,
                      tokens, targets);
      // Rows beyond the batch are padding.
      int64_t filled = real * library->manifest().sequence;
      data->fillBatch(dataStep, batch(), batch(), rowsCount - real,
                      tokens + filled, targets + filled);
    };
    StatusOr<StepOutputs> sums = session->run("accumulate", fill);
    if (!sums.ok())
      return sums;
    addCommunicationTime();
    if (step == firstStep)
      OPTRT_RETURN_IF_ERROR(countTraffic("accumulate"));
  }
  return session->run("update", nullptr);
}

Status Training::oneStep(int64_t step, Progress &progress) {
  double lr = options.learningRate.at(step, options.steps);
  options.hyperparameters.apply(*session, step, lr);
  communication = {};
  auto begin = std::chrono::steady_clock::now();
  StatusOr<StepOutputs> outputs = runStep(step);
  if (!outputs.ok())
    return failJob(world, outputs.status());
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();

  last = {
      step, outputs->meanLoss(), outputs->gradNorm,
      lr,   1e3 * seconds,       static_cast<double>(batchTokens()) / seconds};
  if (step == firstStep)
    OPTRT_RETURN_IF_ERROR(observeFirstStep());
  else
    secondsAfterFirst += seconds;
  // Packed weights may still appear in the second step.
  if (step <= firstStep + 1 || step == options.steps)
    largestRank = session->largestRankMemory();

  addCommunicationTime();
  progress.step(last);
  std::optional<Evaluation> evaluation;
  bool finite = std::isfinite(last.loss) && std::isfinite(last.gradNorm);
  if (finite && evalData &&
      (step == options.steps ||
       (options.evalEvery > 0 && step % options.evalEvery == 0))) {
    StatusOr<Evaluation> result = evaluate(*session, *evalData);
    if (!result.ok())
      return failJob(world, result.status());
    evaluation = *result;
    progress.note(format("step %lld: loss %.6f on %s",
                         static_cast<long long>(step), evaluation->loss,
                         options.evalData.c_str()));
  }

  if (log.is_open()) {
    nlohmann::ordered_json line;
    line["step"] = step;
    line["loss"] = last.loss;
    line["grad_norm"] = last.gradNorm;
    line["lr"] = lr;
    line["ms"] = last.milliseconds;
    line["tokens_per_s"] = last.tokensPerSecond;
    line["comm_bytes"] = bytesOfAStep;
    line["peak_bytes"] = largestRank.total();
    line["comm_ms"] = 1e3 * communication.inFlight;
    line["comm_exposed_ms"] = 1e3 * communication.exposed;
    if (evaluation)
      line["eval_loss"] = evaluation->loss;
    log << line.dump() << std::endl;
  }
  // Only the root writes the log; all processes must hear of a failure.
  Status status = okStatus();
  if (log.is_open() && !log)
    return failJob(world,
                   unavailable("--log-json: writing to `" + options.logJson +
                               "` failed at step " + std::to_string(step)));
  if (!finite)
    status = invalidArgument(
        concat("training diverged: at step ", step, " the loss is ", last.loss,
               " and the gradient's norm ", last.gradNorm, "; lower --lr (",
               options.learningRate.peak, "), raise --warmup or lower --clip"));
  return status;
}

/// Every call runs the same commands, so that those of the first step stand for
/// all.
Status Training::countTraffic(std::string_view function) {
  OPTRT_RETURN_IF_ERROR(session->checkTraffic(function));
  OPTRT_ASSIGN_OR_RETURN(std::vector<Traffic> counted,
                         session->trafficOfLastRun());
  traffic.resize(counted.size());
  for (std::size_t axis = 0; axis != counted.size(); ++axis) {
    traffic[axis].bytes += counted[axis].bytes;
    traffic[axis].messages += counted[axis].messages;
  }
  return okStatus();
}

Status Training::observeFirstStep() {
  OPTRT_RETURN_IF_ERROR(
      countTraffic(options.microbatches > 1 ? "update" : "train_step"));
  for (const Traffic &axis : traffic)
    bytesOfAStep += axis.bytes;
  return okStatus();
}

Status Training::save(int64_t step) {
  TrainingState state;
  state.step = step;
  state.seed = seed;
  state.dataPosition =
      firstPosition + std::max<int64_t>(0, step - firstStep + 1) * batch();
  state.order = order;
  state.modelHash = library->manifest().modelHash;
  Status status = session->save(options.save, state);
  return status.ok() ? status : status.withContext("--save");
}

void Training::summarize() const {
  if (last.step > 0) {
    int64_t timedSteps = last.step - firstStep;
    double rate = timedSteps > 0
                      ? static_cast<double>(timedSteps * batchTokens()) /
                            secondsAfterFirst
                      : last.tokensPerSecond;
    std::printf("final loss %.6f, %.0f tokens/s\n", last.loss, rate);
    printCommunication(library->manifest().mesh, traffic);
    printMemory(largestRank);
  }
  if (!options.save.empty())
    std::printf("saved to %s\n", options.save.c_str());
  if (!signal)
    return;
  std::fflush(stdout);
  std::string next = options.save.empty()
                         ? "nothing was saved; --save keeps a run that is "
                           "stopped"
                         : "go on with --load " + options.save;
  std::fprintf(stderr,
               "optimus-run: stopped by %s after step %lld of %lld; %s\n",
               signalName(signal), static_cast<long long>(last.step),
               static_cast<long long>(options.steps), next.c_str());
}

} // namespace

StatusOr<int> train(const TrainOptions &options, World &world) {
  return Training(options, world).run();
}

} // namespace optimus_run
