//===- Candidates.cpp - Layouts to choose from -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Candidates.h"

#include "Budget.h"
#include "RankMemory.h"

#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"
#include "optimus/Tool/Tool.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

static constexpr StringLiteral kBudget = "budget";

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

void mlir::optimus::keepTrainStep(ModuleOp module) {
  if (!module.lookupSymbol<func::FuncOp>("train_step"))
    return;
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.getSymName() != "train_step")
      function.erase();
}

void mlir::optimus::readPrediction(ModuleOp placed, const PhaseOptions &options,
                                   Candidate &candidate) {
  auto step = placed.lookupSymbol<func::FuncOp>("train_step");
  auto schedule =
      step ? step->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule)
           : nullptr;
  if (!schedule) {
    candidate.problem = "there is no @train_step to predict";
    return;
  }
  auto getMs = [&](StringRef name) {
    return schedule.getAs<FloatAttr>(name).getValueAsDouble();
  };
  candidate.stepMs = getMs("predicted_step_ms");
  candidate.exposedMs = getMs("predicted_exposed_ms");
  RankMemory memory = getRankMemory(step, options.isForGpu());
  candidate.rankBytes = memory.getTotal();
  candidate.heldBytes = memory.getTotal() - memory.arena - memory.scratch;
  candidate.peakBytes =
      step->getAttrOfType<IntegerAttr>(ExecDialect::kLowerBoundBytes).getInt();
  if (auto axes = step->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication))
    for (auto axis : axes.getAsRange<DictionaryAttr>())
      candidate.commBytes += axis.getAs<IntegerAttr>("bytes").getInt();
}

OwningOpRef<ModuleOp> mlir::optimus::predict(ModuleOp module,
                                             const PhaseOptions &options,
                                             Candidate &candidate) {
  OwningOpRef<ModuleOp> copy = module.clone();
  if (failed(runPhases(*copy, candidate.getPhases(options), "input", "place",
                       candidate)))
    return nullptr;
  readPrediction(*copy, options, candidate);
  return candidate.problem.empty() ? std::move(copy) : nullptr;
}

std::optional<Candidate> mlir::optimus::choose(ArrayRef<Candidate> candidates,
                                               std::optional<int64_t> budget) {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.problem.empty() &&
        (!budget || candidate.rankBytes <= *budget) &&
        (!best || candidate.stepMs < best->stepMs))
      best = &candidate;
  return best ? std::optional(*best) : std::nullopt;
}

/// Prints all candidates, the fastest first, and marks the chosen one.
static void printCandidates(std::vector<Candidate> candidates,
                            const std::optional<Candidate> &chosen,
                            std::optional<int64_t> budget,
                            llvm::raw_ostream &out) {
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return std::pair(!a.problem.empty(), a.stepMs) <
           std::pair(!b.problem.empty(), b.stepMs);
  });
  constexpr double mebi = 1048576;
  out << llvm::formatv(
      "  {0,-22} {1,-12} {2,-10} {3,12} {4,12} {5,12} {6,12}\n", "mesh",
      "strategy", "recompute", "step, ms", "exposed, ms", "moved, MiB",
      "rank, MiB");
  for (const Candidate &candidate : candidates) {
    bool isChosen = chosen && chosen->hasLayoutOf(candidate) &&
                    chosen->recompute == candidate.recompute;
    out << llvm::formatv("{0} {1,-22} {2,-12} {3,-10} ", isChosen ? "*" : " ",
                         candidate.mesh.toString(), candidate.strategy,
                         candidate.recompute);
    if (!candidate.problem.empty()) {
      out << candidate.problem << "\n";
      continue;
    }
    out << llvm::formatv(
        "{0,12:f2} {1,12:f2} {2,12:f1} {3,12:f1}{4}{5}\n", candidate.stepMs,
        candidate.exposedMs, candidate.commBytes / mebi,
        candidate.rankBytes / mebi,
        budget && candidate.rankBytes > *budget ? "  over the budget" : "",
        candidate.offload.empty()
            ? ""
            : "  --offload-window " + std::to_string(candidate.offloadWindow) +
                  " --offload " + candidate.offload);
  }
}

/// The candidates in question, each with its policies.
static std::vector<Candidate> listInQuestion(const CompileOptions &options,
                                             ArrayRef<StringRef> policies) {
  const PhaseOptions &phases = options.phases;
  std::vector<Candidate> inQuestion{{phases.mesh, phases.strategy}};
  if (options.isAuto())
    inQuestion = options.ranks > 0 ? listCandidates(options.ranks)
                                   : listCandidates(phases.mesh);
  return withPolicies(inQuestion, policies);
}

/// Whether a candidate's layout is known to hold more than the budget before
/// anything is computed. Then no choice of values helps.
static bool holdsTooMuch(const Candidate &candidate,
                         ArrayRef<Candidate> candidates,
                         const CompileOptions &options) {
  return options.phases.offloadBandwidth.empty() &&
         llvm::any_of(candidates, [&](const Candidate &other) {
           return other.problem.empty() && other.hasLayoutOf(candidate) &&
                  other.heldBytes > *options.memoryBudget;
         });
}

int mlir::optimus::chooseLayout(ModuleOp module, CompileOptions &options) {
  // What no GPU holds is no layout; what a machine's processors share, only its
  // user knows.
  if (std::optional<GpuProfile> gpu = options.getGpu();
      gpu && !options.memoryBudget)
    options.memoryBudget = gpu->getUsableBytes();
  SmallVector<StringRef> policies(ccl::getRecomputePolicies());
  if (options.recompute != "auto")
    policies.push_back(kBudget);
  ArrayRef<StringRef> all = policies;
  // It is slower, so where nobody asks for it, it is a way out.
  bool isWayOut = options.recompute.empty() && options.memoryBudget;
  StringRef given = options.recompute;
  std::vector<Candidate> candidates =
      listInQuestion(options, given == "auto" || given == kBudget ? all
                              : given.empty() ? all.take_front()
                                              : ArrayRef(given));
  auto predictFrom = [&](size_t first) {
    for (Candidate &candidate : llvm::drop_begin(candidates, first))
      if (candidate.recompute == kBudget &&
          holdsTooMuch(candidate, candidates, options))
        candidate.problem = "parameters, state and inputs alone are beyond the "
                            "budget";
      else if (candidate.recompute == kBudget)
        predictWithin(module, options.phases, *options.memoryBudget, candidate);
      else
        predict(module, options.phases, candidate);
    return choose(candidates, options.memoryBudget);
  };
  std::optional<Candidate> chosen = predictFrom(0);
  if (!chosen && isWayOut) {
    size_t known = candidates.size();
    llvm::append_range(candidates, listInQuestion(options, all.drop_front()));
    chosen = predictFrom(known);
  }
  printCandidates(candidates, chosen, options.memoryBudget,
                  options.getReportStream());
  // Even where another layout is possible: this one might be the better one.
  for (const Candidate &candidate : candidates)
    if (candidate.isFault)
      return fail("--mesh " + candidate.mesh.toString() + " --strategy " +
                      candidate.strategy + " --recompute " +
                      candidate.recompute + ": " + candidate.problem,
                  kOurFault);
  if (!chosen && llvm::all_of(candidates, [](const Candidate &candidate) {
        return !candidate.problem.empty();
      }))
    return fail("no layout is possible" +
                (candidates.empty() ? "" : ": " + candidates.front().problem));
  if (!chosen)
    return fail(explainBudget(module, options, candidates));
  // The report compares with it, where recomputation is all that differs.
  for (const Candidate &candidate : candidates)
    if (chosen->offload.empty() && candidate.problem.empty() &&
        candidate.recompute == "none" && candidate.hasLayoutOf(*chosen))
      options.withoutRecompute = candidate.getNeeds();
  options.phases = chosen->getPhases(options.phases);
  return kDone;
}
