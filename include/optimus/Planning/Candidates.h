//===- Candidates.h - Layouts to choose from -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_CANDIDATES_H
#define OPTIMUS_PLANNING_CANDIDATES_H

#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Pipelines/Phases.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace mlir::optimus {

/// What a training step is predicted to need.
struct StepNeeds {
  double ms = 0;
  int64_t peakBytes = 0;
};

/// A mesh, a strategy and a policy of recomputation, and what is predicted of a
/// training step.
struct Candidate {
  MeshOption mesh;
  /// With those of single entries: "summa" or "summa,decode=stationary".
  std::string strategy;
  /// A policy, or "budget" where what is recomputed is chosen value by value.
  std::string recompute = "none";
  /// Then these values; as the option of --optimus-recompute is.
  std::string values = {};
  /// Offloaded besides the user's choice, as --offload is.
  std::string offload = {};
  /// With that: as --offload-window is, where the user leaves it open.
  int64_t offloadWindow = 0;
  /// Less for overlap than the user allows, as --extra-workspace is; empty
  /// where it may have all.
  std::string extraWorkspace = {};
  /// Why it cannot be compiled; empty if it can.
  std::string problem = {};
  /// Whether that is a fault of ours: a phase takes what others of ours make.
  bool isFault = false;
  /// Why it was not compiled, where a closed form rules it out.
  std::string ruledOut = {};
  /// Whether the numbers follow from a few layers of the model.
  bool isEstimated = false;
  double stepMs = 0, exposedMs = 0;
  /// Sent by all ranks, as the manifest counts it.
  int64_t commBytes = 0;
  /// What the largest rank holds: parameters, optimizer state, inputs, arena.
  int64_t rankBytes = 0;
  /// The part of it that no recomputation changes: all but arena and scratch.
  int64_t heldBytes = 0;
  /// The most of the arena of the step of training that is alive at once.
  int64_t peakBytes = 0;
  /// How many of them overlap adds.
  int64_t overlapBytes = 0;

  /// Whether the predictions are there.
  bool isPredicted() const { return problem.empty() && ruledOut.empty(); }

  /// Whether only recomputation and offloading may differ.
  bool hasLayoutOf(const Candidate &other) const {
    return strategy == other.strategy && mesh.axes == other.mesh.axes;
  }

  /// Whether functions of generation may leave its weights where they are, and
  /// move activations over two axes. Over one, megatron does so.
  bool mayStay() const;

  StepNeeds getNeeds() const { return {stepMs, peakBytes}; }

  /// Takes the predictions over from a candidate with the same step.
  void takePrediction(const Candidate &same) {
    stepMs = same.stepMs;
    exposedMs = same.exposedMs;
    commBytes = same.commBytes;
    rankBytes = same.rankBytes;
    heldBytes = same.heldBytes;
    peakBytes = same.peakBytes;
    overlapBytes = same.overlapBytes;
  }

  /// What makes a compilation this candidate.
  PhaseOptions getPhases(PhaseOptions options) const {
    options.mesh = mesh;
    auto [program, ofEntries] = StringRef(strategy).split(',');
    options.strategy = program.str();
    options.entryStrategies = ofEntries.str();
    options.recompute = values.empty() ? recompute : values;
    if (!extraWorkspace.empty())
      options.extraWorkspace = extraWorkspace;
    if (!offload.empty()) {
      options.offload += (options.offload.empty() ? "" : ",") + offload;
      if (options.offloadWindow == 0)
        options.offloadWindow = offloadWindow;
    }
    return options;
  }
};

/// Adds decode=stationary behind each layout whose weights may stay.
std::vector<Candidate> withDecodes(llvm::ArrayRef<Candidate> candidates);

/// Every strategy on every mesh of `ranks` ranks that it can use, the axes of
/// one rank included. An axis that only replicates is `data`.
std::vector<Candidate> listCandidates(int64_t ranks);
/// Every strategy that can use all of `mesh`.
std::vector<Candidate> listCandidates(const MeshOption &mesh);

/// Each of the candidates with each of the policies.
std::vector<Candidate> withPolicies(llvm::ArrayRef<Candidate> candidates,
                                    llvm::ArrayRef<llvm::StringRef> policies);

/// Runs the phases after `from` up to `to` for a candidate, or notes its
/// problem.
LogicalResult runPhases(ModuleOp module, const PhaseOptions &options,
                        StringRef from, StringRef to, Candidate &candidate);

/// Runs the phases up to `exec` for a candidate's training step alone: for it
/// everything is chosen, and the other functions of a step take most of a
/// compilation's time. Of a library for generation they are prefill and decode,
/// and the decode's time is compared.
LogicalResult lowerTrainStep(ModuleOp module, const PhaseOptions &options,
                             Candidate &candidate);

/// Whether a program has a step of training, or will.
bool trains(ModuleOp module);

/// The function by whose time layouts are compared: a step of training or, in a
/// library for generation, that of a token. Null where there is neither.
func::FuncOp findPredicted(ModuleOp module);

/// Erases the others, after the phase `tune`. What a program has besides stays,
/// and is checked with it.
void keepTrainStep(ModuleOp module);

/// Fills in the predictions of a scheduled module, to the byte where its memory
/// is placed.
void readPrediction(ModuleOp module, const PhaseOptions &options,
                    Candidate &candidate);

/// What a call of a function of generation is predicted to need.
struct EntryNeeds {
  EntryKind entry = EntryKind::Decode;
  double ms = 0;
  /// Sent by all ranks, as the manifest counts it.
  int64_t commBytes = 0;
};
/// Compiles the functions of generation of a copy of `module`. Empty, with the
/// candidate's problem, where that is impossible.
std::vector<EntryNeeds> predictEntries(ModuleOp module,
                                       const PhaseOptions &options,
                                       Candidate &candidate);

/// Compiles a copy of `module` as far as its training step, with placed memory
/// and predicted time, and fills the prediction in. Returns the compiled copy,
/// or null where there is a problem.
OwningOpRef<ModuleOp> predict(ModuleOp module, const PhaseOptions &options,
                              Candidate &candidate);

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_CANDIDATES_H
