//===- ModelRun.h - A session that is told what to do by calls --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A session for batches of the caller's own, as Python's: no data files, no
// output, and no end of the process. Every failure is a status.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_MODELRUN_H
#define OPTIMUS_RUNTIME_TOOLING_MODELRUN_H

#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/Session.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace optrt {

struct ModelRunOptions {
  /// The kinds of functions that will be called: of Train, Eval, Forward,
  /// Prefill and Decode. Empty: those that the library has. With Prefill comes
  /// Score, if there is one.
  std::set<EntryKind> kinds;
  Hyperparameters hyperparameters;
  /// Names of those that the user gave. A loaded checkpoint sets the others,
  /// but for the microbatches.
  std::set<std::string> given;
  uint64_t seed = 0;
  /// Its functions and sequences are chosen by the kinds.
  SessionOptions session;
};

/// A batch: sequences in rows, behind each other.
struct TokenRows {
  std::span<const int32_t> tokens;
  std::span<const int32_t> targets = {}; ///< below 0: not real; none: all so
};

struct LoadOptions {
  /// The parameters alone, of a checkpoint too.
  bool weightsOnly = false;
  std::vector<std::string> ignored; ///< patterns of tensors left out of weights
  std::string base;                 ///< CheckpointReaderOptions::base
};

/// A model in memory, the step that it has reached, and its hyperparameters.
/// Its parameters have their initial values until something else is loaded or
/// assigned. All functions but shardOf() and those that are const are
/// collective: every process of a job calls them alike, with the same
/// arguments, and an argument refused in one is refused in all.
///
/// Errors of all: InvalidArgument for an argument, with nothing changed;
/// Unavailable after a call that failed on the way, or while a failed load()
/// has left the parameters in pieces.
class ModelRun {
public:
  /// Both must outlive it. InvalidArgument where the library lacks a kind, and
  /// those of Session::create().
  static StatusOr<std::unique_ptr<ModelRun>>
  create(const ModelLibrary &library, World &world, ModelRunOptions options);

  /// Takes a step on as many sequences as a step has, with the rate of the
  /// schedule or the one given.
  StatusOr<StepOutputs> train(TokenRows rows, std::optional<double> lr = {});
  /// The loss of at most a batch of sequences.
  StatusOr<StepOutputs> eval(TokenRows rows);
  /// What a function of the kind Forward makes of at most a batch of sequences:
  /// a tensor with as many rows; in the root process, elsewhere no bytes.
  StatusOr<HostTensor> forward(std::span<const int32_t> tokens);

  /// Sets all to initial values: step 0.
  Status initialize(uint64_t seed);
  /// Takes a checkpoint, and goes on from its step where the run trains; or a
  /// folder of weights. Returns notes for people on what differs.
  StatusOr<std::vector<std::string>> load(const std::string &folder,
                                          const LoadOptions &options);
  /// Writes a checkpoint. InvalidArgument where `folder` has one that this run
  /// has neither loaded nor written, unless it `overwrites`.
  Status save(const std::string &folder, bool overwrites);

  /// As Session's functions of these names.
  StatusOr<std::vector<float>> gather(std::string_view buffer);
  Status assign(std::string_view buffer, std::span<const float> whole);
  StatusOr<std::span<const std::byte>>
  shardOf(std::string_view buffer, int rank, std::vector<uint8_t> &copy);

  /// Before a step of a generator.
  Status beginGeneration();

  Session &session() { return *owned; }
  const Session &session() const { return *owned; }
  const Manifest &manifest() const { return owned->manifest(); }
  ControlPlane &controlPlane() const { return control; }
  const Hyperparameters &hyperparameters() const { return hyper; }
  int64_t step() const { return reached; }
  uint64_t seed() const { return currentSeed; }
  /// Sequences of a step.
  int64_t sequencesOfStep() const {
    return manifest().batch * hyper.microbatches;
  }
  bool has(EntryKind kind) const { return kinds.contains(kind); }
  /// Its function, or null.
  const Function *functionOf(EntryKind kind) const;

private:
  ModelRun(const ModelLibrary &library, World &world, ModelRunOptions &options);
  Status choose(SessionOptions &options);
  Status checkKind(EntryKind kind) const;
  Status checkRows(const TokenRows &rows, int64_t least, int64_t most) const;
  Status begin(Status arguments);
  Status checkValues();
  Status prepareFor(EntryKind kind);
  StatusOr<StepOutputs> end(StatusOr<StepOutputs> outputs);
  StatusOr<StepOutputs> runOn(const TokenRows &rows, EntryKind kind);
  Status readMicrobatches(const TokenRows &rows);
  void takeOver(const TrainingState &state);
  Status claim(const std::string &folder, bool overwrites) const;

  const ModelLibrary &library;
  ControlPlane &control;
  std::set<EntryKind> kinds;
  Hyperparameters hyper;
  const std::set<std::string> given;
  std::unique_ptr<Session> owned;

  enum class Values { None, Whole, Broken } values = Values::None;
  /// Called since parameters have changed.
  Status failure; ///< of the call after which the session cannot go on
  uint64_t currentSeed;
  int64_t reached = 0, position = 0;
  std::vector<CompanionFile> companions;
  /// Of adapters, while the other parameters are those in its folder.
  std::optional<BaseWeights> base;
  std::set<std::string> fingerprints; ///< of checkpoints that may be replaced
  std::vector<CallInputs> inputs;     ///< of a step, kept for the next
  HostBatch batch;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_MODELRUN_H
