//===- BudgetSettings.h - Where a memory budget's search starts -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search for a memory budget compiles one program many times. Its settings
// differ in the arguments that are offloaded. Each has choices of values to
// recompute.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_BUDGETSETTINGS_H
#define OPTIMUS_LIB_PLANNING_BUDGETSETTINGS_H

#include "RecomputeModel.h"

#include "optimus/Planning/LayoutChoice.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// What is offloaded of arguments, and the step with it.
struct Setting {
  /// With all values kept.
  Candidate alone;
  RecomputeModel model;
  /// With measured times: the same with predicted ones, from which the choice
  /// takes other turns.
  std::optional<RecomputeProgram> predicted;
  /// Choices of values that policies make; the first one keeps all.
  std::vector<ValueChoice> starts;
  /// The policy that makes each of them, or "" where there is none.
  std::vector<std::string> policies;
  /// The model's peak beyond the rank's.
  int64_t excess = 0;
};

/// What is offloaded of arguments, as --offload is; what takes longer is later.
struct SettingList {
  std::vector<std::string> offloads;
  size_t next = 0;
  /// What any of the others takes at least.
  double leastMs = 0;
};

/// The settings of one layout. What all of them share is compiled once.
class BudgetSettings {
public:
  /// The window for fetches is such a part of a rank's bytes with all values
  /// kept.
  static constexpr int64_t kWindowPart = 128;
  /// Of a setting, at most.
  static constexpr size_t kMostStarts = 6;

  /// `question` outlives this.
  BudgetSettings(const LayoutQuestion &question, const Candidate &layout)
      : options(question.phases), machine(question.machine), layout(layout) {}

  /// Compiles as far as what is offloaded makes no difference. The layout has
  /// the problem where that fails.
  LogicalResult prepare(ModuleOp module);
  const Candidate &getLayout() const { return layout; }
  /// A copy of the program, as it is before anything is recomputed.
  OwningOpRef<ModuleOp> cloneTuned() const { return tuned.get().clone(); }
  /// Of a step without recomputation.
  int countCommands() const;
  /// What is fetched ahead where anything is offloaded; known from the first
  /// setting on.
  int64_t getFetchWindow() const { return window; }

  std::vector<SettingList> list() const;
  /// Compiles with what is offloaded, as --offload is, and builds the model.
  Setting lower(llvm::StringRef offload);

private:
  /// Of the optimizer's state, sizes that are offloaded: at most every 32nd
  /// part of it, the smallest tensors first.
  SmallVector<int64_t> getStateSizes() const;
  /// Of the program without recomputation, with its memory placed.
  void buildModel(Setting &setting, func::FuncOp placed,
                  func::FuncOp unscheduled) const;
  /// Whether it is known how fast, and the user leaves open what.
  bool mayOffload() const {
    return !options.offloadBandwidth.empty() && options.offload.empty();
  }

  const PhaseOptions &options;
  const MachineProfile &machine;
  /// The mesh and the strategy, or the problem with them.
  Candidate layout;
  /// The program before --optimus-fuse, behind it, and as its device program
  /// before a schedule; the last two without recomputation.
  OwningOpRef<ModuleOp> tuned, fused, lowered;
  std::optional<ccl::Recomputation> recomputation;
  int64_t window = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_BUDGETSETTINGS_H
