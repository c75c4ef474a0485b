//===- ModelRun.cpp - A session that is told what to do by calls ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelRun.h"

#include "StepScalars.h"
#include "optimus-support/FileLock.h"

#include <algorithm>
#include <utility>

namespace optrt {

ModelRun::ModelRun(const ModelLibrary &library, World &world,
                   ModelRunOptions &options)
    : library(library), control(*world.control),
      kinds(std::move(options.kinds)), hyper(options.hyperparameters),
      given(std::move(options.given)), currentSeed(options.seed) {
  const Manifest &manifest = library.manifest();
  if (kinds.empty())
    for (EntryKind kind :
         {EntryKind::Train, EntryKind::Eval, EntryKind::Forward,
          EntryKind::Prefill, EntryKind::Decode})
      if (manifest.has(kind))
        kinds.insert(kind);
  // Given texts are taken in by it.
  if (kinds.contains(EntryKind::Prefill) && manifest.has(EntryKind::Score))
    kinds.insert(EntryKind::Score);
}

StatusOr<std::unique_ptr<ModelRun>>
ModelRun::create(const ModelLibrary &library, World &world,
                 ModelRunOptions options) {
  std::unique_ptr<ModelRun> run(new ModelRun(library, world, options));
  OPTRT_RETURN_IF_ERROR(run->control.agree(run->choose(options.session)));
  OPTRT_ASSIGN_OR_RETURN(
      run->owned, Session::create(library, world, std::move(options.session)));
  return run;
}

/// Of the library, what the kinds need.
Status ModelRun::choose(SessionOptions &options) {
  const Manifest &manifest = library.manifest();
  for (EntryKind kind : kinds) {
    OPTRT_ASSIGN_OR_RETURN(const Function *function,
                           manifest.findEntry(library.path(), kind));
    if (kind != EntryKind::Train) {
      options.functions.push_back(function->name);
      for (const Function *preparer : manifest.findPreparersOf(*function))
        options.functions.push_back(preparer->name);
    } else if (hyper.microbatches > 1 && !manifest.has(EntryKind::Accumulate))
      return invalidArgument(
          concat("expected one microbatch, found ", hyper.microbatches, ": `",
                 library.path(),
                 "` cannot add gradients up; compile it with accumulate=True"));
    else
      options.sequences.push_back(sequenceFor(hyper.microbatches));
  }
  return manifest.checkDocumentEnd(library.path(), options.documentEnd,
                                   "document_end");
}

const Function *ModelRun::functionOf(EntryKind kind) const {
  if (!has(kind))
    return nullptr;
  StatusOr<const Function *> found = manifest().findEntry(library.path(), kind);
  return found.ok() ? *found : nullptr;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Status ModelRun::checkKind(EntryKind kind) const {
  if (has(kind))
    return okStatus();
  std::string chosen;
  for (EntryKind one : kinds)
    chosen += concat(chosen.empty() ? "" : ", ", toString(one));
  return invalidArgument(concat(
      "this session has no memory for the kind ", toString(kind),
      "; it was made for ", chosen.empty() ? std::string("nothing") : chosen,
      library.manifest().has(kind) ? "" : ", and its library has none"));
}

/// Checks the numbers of a matrix of so many columns.
static Status checkNumbers(const char *name, std::span<const int32_t> numbers,
                           int64_t columns, int64_t vocabulary,
                           bool mayBeNegative) {
  for (int64_t i = 0; i != std::ssize(numbers); ++i)
    if (numbers[i] >= vocabulary || (numbers[i] < 0 && !mayBeNegative))
      return invalidArgument(concat(
          name, ": expected tokens of the vocabulary, from 0 to ",
          vocabulary - 1, mayBeNegative ? ", or -1 for none" : "", "; found ",
          numbers[i], " at row ", i / columns, ", column ", i % columns));
  return okStatus();
}

Status ModelRun::checkRows(const TokenRows &rows, int64_t least,
                           int64_t most) const {
  const int64_t columns = manifest().sequence;
  const int64_t count = std::ssize(rows.tokens) / columns;
  if (count * columns != std::ssize(rows.tokens) || count < least ||
      count > most)
    return invalidArgument(
        concat("tokens: expected ",
               least == most ? "" : concat("from ", least, " to "), most,
               most == 1 ? " sequence of " : " sequences of ", columns,
               " tokens, found ", count));
  if (!rows.targets.empty() && rows.targets.size() != rows.tokens.size())
    return invalidArgument(concat("targets: expected as many as tokens, ",
                                  rows.tokens.size(), "; found ",
                                  rows.targets.size()));
  const int64_t vocabulary = manifest().vocabulary;
  OPTRT_RETURN_IF_ERROR(checkNumbers("tokens", rows.tokens, columns, vocabulary,
                                     /*mayBeNegative=*/false));
  return checkNumbers("targets", rows.targets, columns, vocabulary,
                      /*mayBeNegative=*/true);
}

/// Rows of a batch; those beyond have no real targets.
static Session::FillRows fillFrom(TokenRows rows, int64_t columns) {
  return [rows, columns](int64_t begin, int64_t count, int32_t *tokens,
                         int32_t *targets) {
    auto copy = [&](std::span<const int32_t> from, int32_t padding,
                    int32_t *to) {
      const int64_t first = begin * columns;
      const int64_t there =
          std::clamp<int64_t>(std::ssize(from) - first, 0, count * columns);
      std::copy_n(from.begin() + (there ? first : 0), there, to);
      std::fill(to + there, to + count * columns, padding);
    };
    copy(rows.tokens, 0, tokens);
    copy(rows.targets, -1, targets);
    return okStatus();
  };
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Status ModelRun::begin(Status arguments) {
  return control.agree(arguments.ok() ? checkValues() : std::move(arguments));
}

/// Of this process alone.
Status ModelRun::checkValues() {
  if (!failure.ok())
    return unavailable(concat("an earlier call failed, and what it should have "
                              "changed may be changed by half: make a new "
                              "session; the failure was: ",
                              failure.message()));
  if (values == Values::Broken)
    return unavailable("the last load() failed and has left the parameters in "
                       "pieces: load() again, or initialize()");
  if (values == Values::None) {
    OPTRT_RETURN_IF_ERROR(owned->initialize(currentSeed));
    values = Values::Whole;
  }
  return okStatus();
}

StatusOr<StepOutputs> ModelRun::end(StatusOr<StepOutputs> outputs) {
  if (!outputs.ok() && !owned->canGoOn())
    failure = outputs.status();
  return outputs;
}

/// Calls the functions of kind prepare for those of another kind.
Status ModelRun::prepareFor(EntryKind kind) {
  Status prepared = owned->prepareFor(*functionOf(kind));
  if (!prepared.ok() && !owned->canGoOn())
    failure = prepared;
  return prepared;
}

Status ModelRun::beginGeneration() {
  OPTRT_RETURN_IF_ERROR(begin(okStatus()));
  OPTRT_RETURN_IF_ERROR(prepareFor(EntryKind::Prefill));
  OPTRT_RETURN_IF_ERROR(prepareFor(EntryKind::Decode));
  return kinds.contains(EntryKind::Score) ? prepareFor(EntryKind::Score)
                                          : okStatus();
}

Status ModelRun::readMicrobatches(const TokenRows &rows) {
  const int64_t size = manifest().batch * manifest().sequence;
  inputs.resize(hyper.microbatches);
  for (int64_t m = 0; m != hyper.microbatches; ++m) {
    const TokenRows part{rows.tokens.subspan(m * size, size),
                         rows.targets.empty()
                             ? rows.targets
                             : rows.targets.subspan(m * size, size)};
    OPTRT_RETURN_IF_ERROR(
        owned->read(fillFrom(part, manifest().sequence), inputs[m].batch));
    inputs[m].random = optimus_support::randomWords(currentSeed, reached + 1,
                                                    static_cast<uint32_t>(m));
  }
  return okStatus();
}

StatusOr<StepOutputs> ModelRun::train(TokenRows rows,
                                      std::optional<double> lr) {
  Status arguments = checkKind(EntryKind::Train);
  if (arguments.ok())
    arguments = checkRows(rows, sequencesOfStep(), sequencesOfStep());
  OPTRT_RETURN_IF_ERROR(begin(std::move(arguments)));
  OPTRT_RETURN_IF_ERROR(readMicrobatches(rows));
  setScalars(*owned, hyper, reached + 1,
             lr ? *lr : hyper.rate.at(reached + 1, hyper.steps));
  OPTRT_RETURN_IF_ERROR(owned->submitSequence(sequenceFor(hyper.microbatches),
                                              hyper.microbatches, inputs));
  StatusOr<StepOutputs> outputs = end(owned->collect());
  if (outputs.ok()) {
    ++reached;
    position += sequencesOfStep();
  }
  return outputs;
}

StatusOr<StepOutputs> ModelRun::runOn(const TokenRows &rows, EntryKind kind) {
  OPTRT_RETURN_IF_ERROR(prepareFor(kind));
  OPTRT_RETURN_IF_ERROR(
      owned->read(fillFrom(rows, manifest().sequence), batch));
  OPTRT_RETURN_IF_ERROR(owned->fill(batch));
  return end(owned->run(functionOf(kind)->name));
}

StatusOr<StepOutputs> ModelRun::eval(TokenRows rows) {
  Status arguments = checkKind(EntryKind::Eval);
  if (arguments.ok())
    arguments = checkRows(rows, 1, manifest().batch);
  OPTRT_RETURN_IF_ERROR(begin(std::move(arguments)));
  return runOn(rows, EntryKind::Eval);
}

StatusOr<HostTensor> ModelRun::forward(std::span<const int32_t> tokens) {
  Status arguments = checkKind(EntryKind::Forward);
  if (arguments.ok())
    arguments = checkRows({tokens}, 1, manifest().batch);
  OPTRT_RETURN_IF_ERROR(begin(std::move(arguments)));
  const Function &function = *functionOf(EntryKind::Forward);
  OPTRT_RETURN_IF_ERROR(runOn({tokens}, EntryKind::Forward).status());
  const Buffer &output =
      manifest().buffers[*manifest().findForwardOutput(function)];
  OPTRT_ASSIGN_OR_RETURN(HostTensor tensor,
                         owned->output(function.name, output.name));
  const int64_t rows = std::ssize(tokens) / manifest().sequence;
  tensor.bytes.resize(tensor.bytes.size() / tensor.shape.front() * rows);
  tensor.shape.front() = rows;
  return tensor;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Status ModelRun::initialize(uint64_t seed) {
  OPTRT_RETURN_IF_ERROR(control.agree(owned->initialize(seed)));
  values = Values::Whole;
  base.reset();
  currentSeed = seed;
  reached = position = 0;
  return okStatus();
}

void ModelRun::takeOver(const TrainingState &state) {
  reached = state.step;
  position = state.dataPosition;
  currentSeed = state.seed;
  if (!state.hyperparameters)
    return;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &, auto &value,
          const auto &kept) {
        // The sequence was chosen by them.
        if (!given.contains(info.name) &&
            std::string("microbatches") != info.name)
          value = kept;
      },
      hyper, *state.hyperparameters);
}

StatusOr<std::vector<std::string>> ModelRun::load(const std::string &folder,
                                                  const LoadOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Checkpoint> checkpoint,
      openCheckpoint(control, folder, options.base, "load()"));
  const ExpectedModel expected = expectedModel(manifest());
  const bool goesOn = has(EntryKind::Train) && !options.weightsOnly &&
                      !checkpoint->hasWeightsAlone();
  OPTRT_RETURN_IF_ERROR(control.agree(
      goesOn ? checkpoint->findModel(expected, options.ignored)
             : checkpoint->findParameters(expected, options.ignored)));
  StatusOr<std::vector<CompanionFile>> found =
      control.isRoot() ? checkpoint->readCompanions()
                       : StatusOr<std::vector<CompanionFile>>(companions);
  OPTRT_RETURN_IF_ERROR(control.agree(found.status()));
  std::optional<BaseWeights> beside;
  auto findBase = [&]() -> Status {
    if (!manifest().adapter.empty()) {
      OPTRT_ASSIGN_OR_RETURN(beside, checkpoint->baseWeights());
    }
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agree(findBase()));
  values = Values::Broken;
  OPTRT_RETURN_IF_ERROR(
      control.agree(goesOn ? owned->load(*checkpoint)
                           : owned->loadParameters(*checkpoint, currentSeed)));
  values = Values::Whole;
  companions = *std::move(found);
  base = std::move(beside);
  reached = position = 0;
  if (goesOn) {
    takeOver(checkpoint->state());
    fingerprints.insert(checkpoint->fingerprint());
  }
  return checkpoint->notesOn(expected);
}

/// Checks that saving replaces only a checkpoint of this run.
Status ModelRun::claim(const std::string &folder, bool overwrites) const {
  OPTRT_ASSIGN_OR_RETURN(bool isThere, hasCheckpoint(folder));
  if (!isThere || overwrites)
    return okStatus();
  StatusOr<std::unique_ptr<Checkpoint>> found =
      Checkpoint::openFiles(folder, {.opensBase = false});
  if (found.ok() && fingerprints.contains((*found)->fingerprint()))
    return okStatus();
  return invalidArgument(concat(
      folder, " has ",
      found.ok() ? concat("a checkpoint of step ", (*found)->state().step)
                 : concat("a checkpoint that cannot be read (",
                          found.status().message(), ")"),
      ", which this session has not loaded and would replace; "
      "save(…, overwrite=True) replaces it"));
}

Status ModelRun::save(const std::string &folder, bool overwrites) {
  optimus_support::FileLock lock;
  auto claimIt = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(checkKind(EntryKind::Train));
    if (!control.isRoot())
      return okStatus();
    OPTRT_ASSIGN_OR_RETURN(lock, lockCheckpoint(folder));
    return claim(folder, overwrites);
  };
  OPTRT_RETURN_IF_ERROR(begin(claimIt()));
  SaveFormat format;
  format.companions = companions;
  format.base = base;
  owned->setSaveFormat(std::move(format));
  TrainingState state;
  state.step = reached;
  state.seed = currentSeed;
  state.dataPosition = position;
  state.order = "sequential";
  state.hyperparameters = hyper;
  OPTRT_RETURN_IF_ERROR(owned->save(folder, std::move(state)));
  if (!control.isRoot())
    return okStatus();
  auto written = Checkpoint::openFiles(folder, {.opensBase = false});
  if (written.ok())
    fingerprints.insert((*written)->fingerprint());
  return okStatus();
}

StatusOr<std::vector<float>> ModelRun::gather(std::string_view buffer) {
  OPTRT_RETURN_IF_ERROR(begin(okStatus()));
  return owned->gather(buffer);
}

Status ModelRun::assign(std::string_view buffer, std::span<const float> whole) {
  OPTRT_RETURN_IF_ERROR(begin(okStatus()));
  if (!isAdapterTensor(buffer))
    base.reset();
  return control.agree(owned->assign(buffer, whole));
}

StatusOr<std::span<const std::byte>>
ModelRun::shardOf(std::string_view buffer, int rank,
                  std::vector<uint8_t> &copy) {
  OPTRT_RETURN_IF_ERROR(checkValues());
  return owned->shardOf(buffer, rank, copy);
}

} // namespace optrt
