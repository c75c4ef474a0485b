//===- TrainFiles.cpp - What a training run reads and writes --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainFiles.h"

#include "TrainProfile.h"
#include "optimus-support/Hash.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/PathUse.h"
#include "tooling/StepScalars.h"

#include <filesystem>

using namespace optrt;
using optimus_support::PathUse;

namespace optimus_run {

/// Before anything is opened to be written.
static Status checkPaths(const TrainOptions &options,
                         const std::string &profile) {
  std::vector<PathUse> inputs = {
      {"the library", options.library},
      {"--sample-tokens", options.samplePrompts.file},
      {"--load", options.load, /*isWhole=*/true},
      {"--load-weights", options.loadWeights, /*isWhole=*/true},
  };
  addInputs("--data", options.data.path, inputs);
  addInputs("--eval-data", options.evalData, inputs);
  const PathUse outputs[] = {{"--save", options.save, /*isWhole=*/true},
                             {"--keep-best", options.keepBest,
                              /*isWhole=*/true},
                             {"--log-json", options.logJson},
                             {"--tune", options.ranks.tune},
                             {"--profile", profile}};
  return optimus_support::checkOutputsApart(inputs, outputs);
}

static Status checkPlan(const TrainOptions &options, const StartingPoint &start,
                        const TrainingPlan &plan, const Manifest &manifest) {
  if (Status status = checkHyperparameters(plan.hyperparameters); !status.ok())
    return invalidArgument("--" + status.message());
  OPTRT_RETURN_IF_ERROR(
      manifest.findEntry(options.library, EntryKind::Train).status());
  auto isFrom = [&](const char *name, std::string_view remedy) {
    return options.given.count(name)
               ? std::string()
               : concat("that number is from ", start.folder, "; ", remedy);
  };
  if (plan.hyperparameters.steps == 0 && options.save.empty())
    return invalidArgument("--steps 0 takes no step and saves nothing; "
                           "expected 1 at least, "
                           "or --save, a folder for what the run begins with")
        .withAdvice(isFrom("steps", "--steps takes some"));
  int64_t microbatches = plan.hyperparameters.microbatches;
  if (microbatches == 1 || manifest.has(EntryKind::Accumulate))
    return okStatus();
  return invalidArgument(
             concat("--microbatches ", microbatches, ": model library `",
                    options.library,
                    "` cannot add gradients up; compile it with --accumulate"))
      .withAdvice(isFrom("microbatches", "--microbatches 1 does without"));
}

/// Each process looks at its own machine's folder: openCheckpoint() finds out
/// where they differ.
Status TrainFiles::chooseStart(const TrainOptions &options) {
  start = {options.load, "--load"};
  if (!options.loadWeights.empty())
    start = {options.loadWeights, "--load-weights", /*goesOn=*/false};
  if (!options.resume)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(bool isThere, hasCheckpoint(options.save));
  if (isThere)
    start = {options.save};
  start.flag = "--resume";
  return okStatus();
}

/// Checks that saving replaces only the checkpoint this run goes on from.
Status TrainFiles::checkReplaces(const TrainOptions &options) const {
  OPTRT_ASSIGN_OR_RETURN(bool isThere, hasCheckpoint(options.save));
  if (!isThere || options.overwrite)
    return okStatus();
  StatusOr<std::unique_ptr<Checkpoint>> found =
      Checkpoint::openFiles(options.save, {.opensBase = false});
  if (found.ok() && checkpoint && start.goesOn &&
      (*found)->fingerprint() == checkpoint->fingerprint())
    return okStatus();
  std::string what =
      found.ok() ? concat("a checkpoint of step ", (*found)->state().step)
                 : concat("a checkpoint that cannot be read (",
                          found.status().message(), ")");
  return invalidArgument(concat(
      options.save, " has ", what,
      ", which this run did not load and would replace; --resume goes on from "
      "it, --overwrite replaces it"));
}

Status TrainFiles::openData(const TrainOptions &options) {
  const Manifest &manifest = library->manifest();
  DataOrder dataOrder =
      plan->order == "sequential" ? DataOrder::Sequential : DataOrder::Shuffled;
  OPTRT_ASSIGN_OR_RETURN(
      data, Dataset::open(options.data.path, manifest.sequence,
                          manifest.vocabulary, dataOrder, plan->seed,
                          manifest.masked, options.data.tokenType));
  if (options.data.cacheBytes > 0)
    OPTRT_RETURN_IF_ERROR(data->keepInMemory(options.data.cacheBytes)
                              .withContext("--data-cache"));
  OPTRT_ASSIGN_OR_RETURN(documentEnd,
                         options.data.findDocumentEnd(*library, *data));
  OPTRT_RETURN_IF_ERROR(openEvalData(options));
  // One token ends documents for both, or each says where they end.
  if (evalData && !documentEnd) {
    OPTRT_ASSIGN_OR_RETURN(documentEnd,
                           options.data.findDocumentEnd(*library, *evalData));
  }
  OPTRT_RETURN_IF_ERROR(checkTokenizer(checkpoint.get(), start.folder, *data));
  if (checkpoint && start.goesOn)
    OPTRT_RETURN_IF_ERROR(
        plan->goOnReading(options, start, checkpoint->state(), describeData()));
  return okStatus();
}

Status TrainFiles::openEvalData(const TrainOptions &options) {
  const Manifest &manifest = library->manifest();
  const std::string &path =
      options.evalData.empty() ? options.data.path : options.evalData;
  if (options.evalData.empty() && options.evalEvery == 0)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(
      evalData, Dataset::open(path, manifest.sequence, manifest.vocabulary,
                              DataOrder::Sequential,
                              /*seed=*/0, manifest.masked,
                              options.data.tokenType, StoreSplit::HeldOut));
  const std::optional<TokenOrigin> one = data->origin(),
                                   other = evalData->origin();
  if (one && other && one->tokenizer != other->tokenizer)
    return invalidArgument(concat(
        "--eval-data ", path, " has tokens of the tokenizer with hash ",
        other->tokenizer, ", and ", data->path(), " of the one with hash ",
        one->tokenizer, "; prepare both with one tokenizer"));
  return okStatus();
}

Status TrainFiles::findIn(Checkpoint &found, bool goesOn,
                          const TrainOptions &options) const {
  const ExpectedModel expected = expectedModel(library->manifest());
  // A command that begins with weights goes on from a checkpoint.
  const bool leavesOut = !options.resume || found.readsWeights();
  const std::vector<std::string> ignored =
      leavesOut ? options.weights.ignored : std::vector<std::string>();
  return goesOn ? found.findModel(expected, ignored)
                : found.findParameters(expected, ignored);
}

DataRecord TrainFiles::describeData() const {
  const Manifest &manifest = library->manifest();
  DataRecord record;
  // A folder's name may end with a slash.
  for (const std::string &path : Dataset::pathsIn(data->path()))
    record.file +=
        (record.file.empty() ? "" : ", ") + std::filesystem::path(path + "/")
                                                .lexically_normal()
                                                .parent_path()
                                                .filename()
                                                .string();
  if (const std::optional<TokenOrigin> origin = data->origin())
    record.tokenizer = origin->tokenizer;
  record.identity = data->identity();
  record.sequence = manifest.sequence;
  record.batch = manifest.batch * plan->hyperparameters.microbatches;
  return record;
}

/// Whoever opens the saved folder wants the tokenizer of the text.
Status TrainFiles::addTokenizer() {
  const std::optional<TokenOrigin> origin = data->origin();
  if (!origin || origin->tokenizerFile.empty())
    return okStatus();
  const std::string name =
      std::filesystem::path(origin->tokenizerFile).filename();
  for (const CompanionFile &file : companions)
    if (file.name == name)
      return okStatus();
  constexpr std::size_t kMostBytes = 128 << 20;
  OPTRT_ASSIGN_OR_RETURN(
      std::string text,
      optimus_support::readInput(origin->tokenizerFile, kMostBytes));
  const std::string hash =
      optimus_support::hashToHex(optimus_support::hash64(text));
  if (hash != origin->tokenizer)
    return invalidArgument(concat(origin->tokenizerFile, " has the hash ", hash,
                                  ", the store's index says ",
                                  origin->tokenizer,
                                  "; prepare the store again"));
  companions.push_back({name, std::move(text)});
  return okStatus();
}

/// One that the run replaces is no base: whatever was saved beside it would be
/// lost.
Status TrainFiles::findBase(const TrainOptions &options) {
  if (library->manifest().adapter.empty())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(base, checkpoint->baseWeights());
  for (const std::string &output : {options.save, options.keepBest}) {
    std::error_code error;
    if (std::filesystem::equivalent(base->folder, output, error)) {
      base.reset();
      return okStatus();
    }
  }
  plan->notes.push_back(concat("checkpoints hold the adapters alone, beside "
                               "the weights in ",
                               base->folder));
  return okStatus();
}

Status TrainFiles::claimOutputs(const TrainOptions &options) {
  auto claimSave = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(saveLock, lockCheckpoint(options.save));
    OPTRT_RETURN_IF_ERROR(checkReplaces(options));
    if (checkpoint) {
      OPTRT_ASSIGN_OR_RETURN(companions, checkpoint->readCompanions());
      OPTRT_RETURN_IF_ERROR(findBase(options));
    }
    OPTRT_RETURN_IF_ERROR(addTokenizer());
    return CheckpointWriter::create(options.save).status();
  };
  if (!options.save.empty())
    OPTRT_RETURN_IF_ERROR(claimSave().withContext("--save"));
  // A job that is started again finds its own.
  auto claimBest = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(bestLock, lockCheckpoint(options.keepBest));
    OPTRT_ASSIGN_OR_RETURN(bool isThere, hasCheckpoint(options.keepBest));
    if (isThere && !options.overwrite && !options.resume)
      return invalidArgument(concat(options.keepBest,
                                    " has a checkpoint, which this run would "
                                    "replace; --overwrite lets it, or name "
                                    "another folder"));
    return CheckpointWriter::create(options.keepBest).status();
  };
  if (!options.keepBest.empty())
    OPTRT_RETURN_IF_ERROR(claimBest().withContext("--keep-best"));
  auto claimLog = [&]() -> Status {
    std::optional<int64_t> loaded;
    if (checkpoint && start.goesOn)
      loaded = plan->firstStep - 1;
    OPTRT_ASSIGN_OR_RETURN(log, TrainLog::open(options.logJson, loaded));
    if (!log.notice().empty())
      plan->notes.push_back("--log-json " + log.notice());
    return okStatus();
  };
  return options.logJson.empty() ? okStatus()
                                 : claimLog().withContext("--log-json");
}

Status TrainFiles::open(const TrainOptions &options, ControlPlane &control) {
  auto ofRoot = [&](auto make) {
    return control.agree(control.isRoot() ? make() : okStatus());
  };
  // Every process writes a profile.
  const std::string profile = TrainProfile::pathOf(options, control);
  OPTRT_RETURN_IF_ERROR(
      control.agree(!profile.empty() || control.isRoot()
                        ? checkPaths(options, profile)
                        : okStatus()));
  auto openLibrary = [&]() -> Status {
    if (library)
      return okStatus();
    OPTRT_ASSIGN_OR_RETURN(library, options.ranks.openLibrary(options.library));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(openLibrary()));
  OPTRT_RETURN_IF_ERROR(
      control.agree(chooseStart(options)).withContext("--resume"));
  OPTRT_ASSIGN_OR_RETURN(
      checkpoint,
      openCheckpoint(control, start.folder, options.weights.base, start.flag));
  const Manifest &manifest = library->manifest();
  const ExpectedModel expected = expectedModel(manifest);
  if (!checkpoint && !options.weights.ignored.empty())
    return invalidArgument("--ignore is for folders of weights: name one with "
                           "--load-weights");
  if (checkpoint)
    OPTRT_RETURN_IF_ERROR(
        control.agree(findIn(*checkpoint, start.goesOn, options)));
  plan.emplace(options, start,
               checkpoint && start.goesOn ? &checkpoint->state() : nullptr);
  if (checkpoint)
    for (std::string &note : checkpoint->notesOn(expected))
      plan->notes.push_back(std::move(note));
  for (const std::string &name : findUnread(options.given, manifest))
    plan->notes.push_back(concat(HyperparameterInfo{name.c_str(), ""}.flag(),
                                 " changes nothing: the optimizer ",
                                 manifest.optimizer, " does not read it"));
  OPTRT_RETURN_IF_ERROR(
      control.agree(checkPlan(options, start, *plan, manifest)));
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(openData(options)));
  auto openSamples = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(samples, TrainSamples::open(options, *library));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(
      control.agreeOnFiles(openSamples().withContext("--sample-every")));
  // Its hash is for checkpoints, which the root writes, and to compare.
  OPTRT_RETURN_IF_ERROR(ofRoot([&] { return data->hashInBackground(); }));
  return ofRoot([&] { return claimOutputs(options); });
}

} // namespace optimus_run
