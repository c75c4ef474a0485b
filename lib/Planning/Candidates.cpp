//===- Candidates.cpp - Layouts to choose from -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/Candidates.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/Communication.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"
#include "optimus/Planning/RankMemory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

/// Whether a strategy has a use for every axis of more than one rank, and finds
/// the axes that it must have.
static bool fits(const Strategy &strategy, const MeshOption &mesh) {
  SmallVector<StringRef> used = strategy.getAxes();
  auto has = [&](StringRef axis) {
    return llvm::any_of(mesh.axes,
                        [&](const auto &other) { return other.first == axis; });
  };
  return llvm::all_of(mesh.axes,
                      [&](const auto &axis) {
                        return axis.second == 1 ||
                               llvm::is_contained(used, axis.first);
                      }) &&
         llvm::all_of(used, [&](StringRef axis) {
           return strategy.isOptional(axis) || has(axis);
         });
}

std::vector<Candidate> mlir::optimus::listCandidates(const MeshOption &mesh) {
  std::vector<Candidate> candidates;
  for (const Strategy &strategy : getStrategies())
    if (fits(strategy, mesh))
      candidates.push_back({mesh, strategy.name.str()});
  return candidates;
}

std::vector<Candidate> mlir::optimus::listCandidates(int64_t ranks) {
  if (ranks == 1)
    return listCandidates(MeshOption{{{"row", 1}, {"col", 1}}});
  std::vector<Candidate> candidates = {{MeshOption{{{"data", ranks}}}, "data"}};
  for (int64_t data = 1; data < ranks; ++data) {
    if (ranks % data != 0)
      continue;
    for (int64_t row = 1; row <= ranks / data; ++row) {
      if (ranks / data % row != 0)
        continue;
      MeshOption mesh;
      if (data > 1)
        mesh.axes.push_back({"data", data});
      mesh.axes.push_back({"row", row});
      mesh.axes.push_back({"col", ranks / data / row});
      for (StringRef strategy : {"summa", "megatron", "megatron-sp"})
        // In one dimension `row` would replicate, and hold all of the state.
        if (strategy == "summa" || row == 1)
          candidates.push_back({mesh, strategy.str()});
    }
  }
  return candidates;
}

bool Candidate::mayStay() const {
  auto hasSeveral = [&](StringRef name) {
    return llvm::any_of(mesh.axes, [&](const auto &axis) {
      return axis.first == name && axis.second > 1;
    });
  };
  return StringRef(strategy).split(',').first == "summa" && hasSeveral("row") &&
         hasSeveral("col") && !hasSeveral(Strategy::kDataAxis);
}

std::vector<Candidate>
mlir::optimus::withDecodes(ArrayRef<Candidate> candidates) {
  std::vector<Candidate> result;
  for (const Candidate &candidate : candidates) {
    result.push_back(candidate);
    if (candidate.mayStay()) {
      result.push_back(candidate);
      result.back().strategy += ",decode=stationary";
    }
  }
  return result;
}

std::vector<Candidate>
mlir::optimus::withPolicies(ArrayRef<Candidate> candidates,
                            ArrayRef<StringRef> policies) {
  std::vector<Candidate> result;
  for (const Candidate &candidate : candidates)
    for (StringRef policy : policies)
      result.push_back({candidate.mesh, candidate.strategy, policy.str()});
  return result;
}

LogicalResult mlir::optimus::runPhases(ModuleOp module,
                                       const PhaseOptions &options,
                                       StringRef from, StringRef to,
                                       Candidate &candidate) {
  // Why a layout is impossible stands in the table.
  ScopedDiagnosticHandler handler(
      module.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
            candidate.problem.empty())
          candidate.problem = diagnostic.str();
        return success();
      });
  bool isDone = from != "input";
  for (const Phase &phase : getPhases()) {
    if (isDone) {
      isDone = phase.name != from;
      continue;
    }
    auto passes = PassManager::on<ModuleOp>(module.getContext());
    phase.addPasses(passes, options);
    if (failed(runPasses(passes, module))) {
      if (candidate.problem.empty())
        candidate.problem = ("phase '" + phase.name + "' failed").str();
      candidate.isFault = !checksInput(phase, candidate.recompute, options);
      return failure();
    }
    if (phase.name == to)
      break;
  }
  return success();
}

func::FuncOp mlir::optimus::findPredicted(ModuleOp module) {
  func::FuncOp step = findEntry(module, EntryKind::Train);
  return step ? step : findEntry(module, EntryKind::Decode);
}

/// Erases functions of other kinds.
static void keepEntries(ModuleOp module, ArrayRef<EntryKind> kinds) {
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (getEntry(function) &&
        !llvm::is_contained(kinds, getEntryKind(function)))
      function.erase();
}

bool mlir::optimus::trains(ModuleOp module) {
  return module.lookupSymbol("loss") || findEntry(module, EntryKind::Train);
}

void mlir::optimus::keepTrainStep(ModuleOp module) {
  // A prefill may need more memory than a decode.
  if (trains(module))
    keepEntries(module, EntryKind::Train);
  else
    keepEntries(module, kGenerationKinds);
}

/// The function that needs most of a rank's memory.
static func::FuncOp findLargest(ModuleOp module, func::FuncOp step,
                                const PhaseOptions &options) {
  auto getTotal = [&](func::FuncOp function) {
    return getRankMemory(function, options.isForGpu()).getTotal();
  };
  func::FuncOp largest = step;
  for (EntryKind kind : kGenerationKinds)
    for (func::FuncOp other : findEntries(module, kind))
      if (getTotal(other) > getTotal(largest))
        largest = other;
  return largest;
}

LogicalResult mlir::optimus::lowerTrainStep(ModuleOp module,
                                            const PhaseOptions &options,
                                            Candidate &candidate) {
  if (failed(runPhases(module, options, "input", "tune", candidate)))
    return failure();
  func::FuncOp step = findPredicted(module);
  // Nothing of a token can be recomputed.
  if (!step || (getEntryKind(step) != EntryKind::Train &&
                candidate.recompute != "none")) {
    candidate.problem = "there is no step of training to predict";
    return failure();
  }
  keepTrainStep(module);
  return runPhases(module, options, "tune", "exec", candidate);
}

/// What the scheduler says of a function, or null.
static DictionaryAttr getSchedule(func::FuncOp function) {
  return function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
}

static double getMs(DictionaryAttr schedule, StringRef name) {
  return schedule.getAs<FloatAttr>(name).getValueAsDouble();
}

/// The bytes that all ranks send in a function.
static int64_t countMoved(func::FuncOp function) {
  auto axes = function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication);
  // Before memory is placed they are not counted yet.
  if (!function->hasAttr(ExecDialect::kLowerBoundBytes))
    if (FailureOr<ArrayAttr> counted = exec::describeCommunication(function);
        succeeded(counted))
      axes = *counted;
  int64_t bytes = 0;
  if (axes)
    for (auto axis : axes.getAsRange<DictionaryAttr>())
      bytes += axis.getAs<IntegerAttr>("bytes").getInt();
  return bytes;
}

void mlir::optimus::readPrediction(ModuleOp module, const PhaseOptions &options,
                                   Candidate &candidate) {
  auto step = findPredicted(module);
  DictionaryAttr schedule = step ? getSchedule(step) : nullptr;
  if (!schedule) {
    candidate.problem = "there is no step of training to predict";
    return;
  }
  candidate.stepMs = getMs(schedule, "predicted_step_ms");
  candidate.exposedMs = getMs(schedule, "predicted_exposed_ms");
  candidate.overlapBytes =
      schedule.getAs<IntegerAttr>("extra_workspace_bytes").getInt();
  func::FuncOp largest = findLargest(module, step, options);
  RankMemory memory = getRankMemory(largest, options.isForGpu());
  candidate.rankBytes = memory.getTotal();
  candidate.heldBytes = memory.getTotal() - memory.arena - memory.scratch;
  auto bound =
      largest->getAttrOfType<IntegerAttr>(ExecDialect::kLowerBoundBytes);
  candidate.peakBytes =
      bound ? bound.getInt() : exec::computePeakBytes(largest);
  candidate.commBytes = countMoved(step);
}

std::vector<EntryNeeds>
mlir::optimus::predictEntries(ModuleOp module, const PhaseOptions &options,
                              Candidate &candidate) {
  OwningOpRef<ModuleOp> copy = module.clone();
  const PhaseOptions phases = candidate.getPhases(options);
  if (failed(runPhases(*copy, phases, "input", "tune", candidate)))
    return {};
  keepEntries(*copy, kGenerationKinds);
  if (failed(runPhases(*copy, phases, "tune", "schedule", candidate)))
    return {};
  std::vector<EntryNeeds> needs;
  for (EntryKind kind : kGenerationKinds)
    for (func::FuncOp function : findEntries(*copy, kind))
      if (DictionaryAttr schedule = getSchedule(function))
        needs.push_back(
            {kind, getMs(schedule, "predicted_step_ms"), countMoved(function)});
  return needs;
}

OwningOpRef<ModuleOp> mlir::optimus::predict(ModuleOp module,
                                             const PhaseOptions &options,
                                             Candidate &candidate) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PhaseOptions phases = candidate.getPhases(options);
  if (failed(lowerTrainStep(*copy, phases, candidate)) ||
      failed(runPhases(*copy, phases, "exec", "place", candidate)))
    return nullptr;
  readPrediction(*copy, options, candidate);
  candidate.isEstimated = false;
  return candidate.problem.empty() ? std::move(copy) : nullptr;
}
