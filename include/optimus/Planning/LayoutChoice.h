//===- LayoutChoice.h - Chooses a layout by prediction ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_LAYOUTCHOICE_H
#define OPTIMUS_PLANNING_LAYOUTCHOICE_H

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Planning/Candidates.h"
#include "optimus/Simulation/Cluster.h"

#include "optimus-support/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// Takes a line on how far a search is.
using ProgressFn = std::function<void(StringRef line)>;

/// What a compilation leaves to be chosen by prediction.
struct LayoutQuestion {
  /// With a strategy, or "auto".
  PhaseOptions phases;
  /// As it was given: a policy, "auto", "budget", ids of values or "".
  std::string recompute;
  /// With the strategy "auto": of how many ranks meshes are weighed; 0 for the
  /// mesh of `phases`.
  int64_t ranks = 0;
  /// Most bytes of a rank.
  std::optional<int64_t> memoryBudget;
  /// What times are predicted for; its file is the machine profile of `phases`.
  MachineProfile machine;
  /// Where the fastest layouts are simulated, with each placement.
  std::optional<optimus_simulation::Cluster> cluster;

  bool isAuto() const { return phases.strategy == "auto"; }
  /// Whether something is left to be chosen.
  bool isOpen() const {
    return isAuto() || recompute == "auto" || memoryBudget.has_value() ||
           cluster.has_value();
  }
};

/// How a function of generation may lie, with what a call of it needs.
struct EntryLayout {
  EntryNeeds needs;
  /// Of the program, or of this entry alone.
  std::string strategy;
  bool isChosen = false;
};

/// One of the fastest layouts by prediction, simulated on a cluster.
struct Finalist {
  Candidate layout;
  /// The part of the mesh on a node; empty for ranks that follow each other.
  optimus_simulation::Tile placement;
  /// What the slowest rank takes for a step.
  double stepMs = 0;
  /// Why it cannot be simulated, as where the cluster's tile does not divide
  /// its mesh; empty if it can.
  std::string problem = {};
};

struct LayoutAnswer {
  /// All that were in question, in no order.
  std::vector<Candidate> candidates;
  /// On a cluster, the fastest first; those with a problem last.
  std::vector<Finalist> finalists;
  /// The best, if any is possible.
  std::optional<Candidate> chosen;
  /// What was weighed of single functions of generation, with the chosen mesh.
  std::vector<EntryLayout> entries;
  /// That of the question, or the memory of the machine's GPU.
  std::optional<int64_t> memoryBudget;
  /// The needs of the chosen one without recomputation, where they are known
  /// and nothing else differs.
  std::optional<StepNeeds> withoutRecompute;
  /// Why the choice is of no use: no layout is possible or fits the budget, or
  /// one has met a fault of ours.
  optimus_support::Status failure;
};

/// Chooses mesh, strategy and policy by predictions for all candidates; on a
/// cluster, by simulations of the fastest of them on each placement.
/// Compiles copies of `module`, whose other diagnostics are silent meanwhile.
LayoutAnswer chooseLayout(ModuleOp module, const LayoutQuestion &question,
                          const ProgressFn &progress = {});

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_LAYOUTCHOICE_H
