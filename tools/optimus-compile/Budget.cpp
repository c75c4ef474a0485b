//===- Budget.cpp - What to keep within a memory budget ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model of the step says what to recompute and what to offload; compiling
// that says what it needs. What the model had wrong moves what is asked of it
// the next time.
//
//===----------------------------------------------------------------------===//

#include "Budget.h"

#include "RecomputeModel.h"

#include "optimus/Dialect/Exec/Transforms/Bandwidth.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;
using ccl::Recomputation;
using ccl::RecomputePolicy;

namespace {
class BudgetSearch {
public:
  BudgetSearch(const PhaseOptions &options, int64_t budget,
               const Candidate &layout)
      : options(options), budget(budget), layout(layout) {}

  Candidate run(ModuleOp module) {
    if (failed(prepare(module)))
      return layout;
    Candidate chosen = attempt();
    if (!mayOffload() || !chosen.problem.empty() ||
        (fits(chosen) && chosen.values == "none"))
      return chosen;
    // What lies in arguments is no value of the model.
    for (StringRef kinds :
         {"state", "state,parameters", "state,parameters,gradients"}) {
      Candidate found = attemptWith(kinds);
      if (isBetter(found, chosen))
        chosen = found;
      if (!fits(found))
        continue;
      if (kinds == "state")
        offloadLessState(chosen);
      break;
    }
    return chosen;
  }

private:
  /// Compiles as far as what is offloaded makes no difference.
  LogicalResult prepare(ModuleOp module);
  /// What is found with the arguments that `layout` offloads.
  Candidate attempt();
  Candidate attemptWith(const Twine &offload) {
    layout.offload = offload.str();
    return attempt();
  }
  /// Replaces what was chosen where a part of the state will do.
  void offloadLessState(Candidate &chosen);
  /// Of the program without recomputation, with its memory placed.
  void buildModel(func::FuncOp placed, const Recomputation &recomputation);
  void search();
  bool fits(const Candidate &candidate) const {
    return candidate.problem.empty() && candidate.rankBytes <= budget;
  }
  /// Whether it fits and another one does not, or is slower, or neither fits
  /// and it takes less.
  bool isBetter(const Candidate &candidate, const Candidate &other) const {
    if (fits(candidate))
      return !fits(other) || candidate.stepMs < other.stepMs;
    return candidate.problem.empty() && !fits(other) &&
           candidate.rankBytes < other.rankBytes;
  }
  /// Whether it is known how fast, and the user leaves open what.
  bool mayOffload() const {
    return !options.offloadBandwidth.empty() && options.offload.empty();
  }
  /// Of the ways that the model finds from different starts, the fastest.
  std::optional<ValueChoice> plan(int64_t target) const;
  std::optional<ValueChoice> planLeast(int64_t target) const;
  /// Compiles with a choice; nothing where it was tried before.
  std::optional<Candidate> compile(const ValueChoice &choice);

  PhaseOptions options;
  int64_t budget;
  /// The mesh and the strategy, or the problem with them.
  Candidate layout;
  /// The program before --optimus-fuse, behind it, and as its device program
  /// before a schedule; the last two without recomputation.
  OwningOpRef<ModuleOp> tuned, fused, lowered;
  RecomputeModel model;
  /// With measured times: the same with predicted ones, from which the search
  /// takes other turns.
  std::optional<RecomputeProgram> predicted;
  /// What the policies recompute.
  std::vector<ValueChoice> starts;
  /// What the model has as the peak beyond what a rank holds.
  int64_t modelExcess = 0;
  llvm::StringSet<> tried;
  Candidate best;
};
} // namespace

LogicalResult BudgetSearch::prepare(ModuleOp module) {
  layout.values = "none";
  PhaseOptions phases = layout.getPhases(options);
  tuned = module.clone();
  if (failed(runPhases(*tuned, phases, "input", "tune", layout)))
    return failure();
  // What is chosen for a step holds for all functions.
  for (auto function :
       llvm::make_early_inc_range(tuned->getOps<func::FuncOp>()))
    if (function.getSymName() != "train_step")
      function.erase();
  fused = tuned->clone();
  if (failed(runPhases(*fused, phases, "tune", "fuse", layout)))
    return failure();
  lowered = fused->clone();
  return runPhases(*lowered, phases, "fuse", "exec", layout);
}

Candidate BudgetSearch::attempt() {
  best = layout;
  OwningOpRef<ModuleOp> placed = lowered->clone();
  if (failed(
          runPhases(*placed, layout.getPhases(options), "exec", "place", best)))
    return best;
  readPrediction(*placed, options, best);
  if (!best.problem.empty() || fits(best))
    return best;
  if (std::optional<Recomputation> recomputation =
          Recomputation::of(fused->lookupSymbol<func::FuncOp>("train_step"))) {
    buildModel(placed->lookupSymbol<func::FuncOp>("train_step"),
               *recomputation);
    search();
  }
  return best;
}

void BudgetSearch::offloadLessState(Candidate &chosen) {
  auto step = lowered->lookupSymbol<func::FuncOp>("train_step");
  int64_t most = 0;
  for (BlockArgument argument : step.getArguments())
    if (BufferAttr buffer = getArgumentBuffer(step, argument.getArgNumber());
        buffer && buffer.getLifetime() == Lifetime::State && buffer.getOf())
      most += exec::getBufferBytes(argument);
  int64_t least = 0;
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    int64_t middle = least + (most - least) / 2;
    Candidate found = attemptWith("state=" + Twine(middle));
    if (isBetter(found, chosen)) {
      chosen = found;
      most = middle;
    } else {
      least = middle;
    }
  }
}

void BudgetSearch::buildModel(func::FuncOp placed,
                              const Recomputation &recomputation) {
  // It was read before, for the schedule.
  MachineProfile profile =
      llvm::cantFail(MachineProfile::load(options.machineProfile));
  auto build = [&](std::shared_ptr<const MeasuredCosts> measured) {
    RecomputeModel built = buildRecomputeModel(
        recomputation, fused->lookupSymbol<func::FuncOp>("train_step"), placed,
        CostModel(profile, layout.mesh.getNumRanks(), std::move(measured)));
    if (mayOffload()) {
      auto rates = *exec::Bandwidth::parse(options.offloadBandwidth);
      built.program.fetchRate = rates.in;
      built.program.storeRate = rates.out;
    }
    return built;
  };
  std::shared_ptr<const MeasuredCosts> measured =
      layout.getPhases(options).getMeasured();
  model = build(measured);
  if (measured)
    predicted = build(nullptr).program;
  starts.clear();
  for (RecomputePolicy policy :
       {RecomputePolicy::None, RecomputePolicy::Attention,
        RecomputePolicy::Layer})
    starts.push_back({model.getRepeated(recomputation, policy)});
  modelExcess =
      getCost(model.program, starts.front()).peakBytes - best.rankBytes;
}

std::optional<ValueChoice> BudgetSearch::plan(int64_t target) const {
  std::optional<ValueChoice> fastest;
  double seconds = 0;
  auto tryAll = [&](const RecomputeProgram &program) {
    for (const ValueChoice &start : starts) {
      std::optional<ValueChoice> found = chooseValues(program, target, start);
      if (!found)
        continue;
      double now = getCost(model.program, *found).seconds;
      if (fastest && now >= seconds)
        continue;
      fastest = std::move(found);
      seconds = now;
    }
  };
  tryAll(model.program);
  if (predicted)
    tryAll(*predicted);
  return fastest;
}

std::optional<ValueChoice> BudgetSearch::planLeast(int64_t target) const {
  int64_t over = target,
          most = getCost(model.program, starts.front()).peakBytes;
  for (const ValueChoice &start : starts)
    most = std::min(most, getCost(model.program, start).peakBytes);
  std::optional<ValueChoice> least = plan(most);
  constexpr int kSteps = 6;
  for (int step = 0; step < kSteps; ++step) {
    int64_t middle = over + (most - over) / 2;
    if (std::optional<ValueChoice> found = plan(middle)) {
      least = std::move(found);
      most = middle;
    } else {
      over = middle;
    }
  }
  return least;
}

std::optional<Candidate> BudgetSearch::compile(const ValueChoice &choice) {
  Candidate candidate = layout;
  std::string values = model.describe(choice.repeated),
              offloaded = model.describe(choice.offloaded);
  candidate.values = values.empty() ? "none" : values;
  if (!offloaded.empty())
    candidate.offload += (candidate.offload.empty() ? "" : ",") + offloaded;
  if ((values.empty() && offloaded.empty()) ||
      !tried.insert(candidate.values + " " + candidate.offload).second)
    return std::nullopt;
  OwningOpRef<ModuleOp> copy = tuned->clone();
  if (succeeded(runPhases(*copy, candidate.getPhases(options), "tune", "place",
                          candidate)))
    readPrediction(*copy, options, candidate);
  return candidate;
}

void BudgetSearch::search() {
  // Between these the model is asked for next.
  int64_t over = 0, under = 0, target = budget + modelExcess;
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    std::optional<ValueChoice> choice = plan(target);
    bool isLeast = !choice;
    if (isLeast)
      choice = planLeast(target);
    std::optional<Candidate> now = choice ? compile(*choice) : std::nullopt;
    if (!now)
      return;
    if (!now->problem.empty()) {
      best = *now;
      return;
    }
    if (isBetter(*now, best))
      best = *now;
    int64_t slack = budget - now->rankBytes;
    if (isLeast || (slack >= 0 && slack < budget / 200))
      return;
    (slack >= 0 ? under : over) = target;
    target = under > 0 && over > 0 ? under + (over - under) / 2
                                   : target + slack - budget / 1000;
  }
}

void mlir::optimus::predictWithin(ModuleOp module, const PhaseOptions &options,
                                  int64_t budget, Candidate &candidate) {
  candidate = BudgetSearch(options, budget, candidate).run(module);
}
