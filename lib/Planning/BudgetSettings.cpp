//===- BudgetSettings.cpp - Where a memory budget's search starts ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BudgetSettings.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/Bandwidth.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::optimus;
using ccl::Recomputation;
using ccl::RecomputePolicy;

namespace {
/// A model starts from these choices, and they are compiled as they are, too.
/// `layer` has the cuts that it finds best, and those of every first, second
/// and third layer.
struct Start {
  RecomputePolicy policy;
  size_t layersPerCut = 0;
};
} // namespace

static constexpr Start kStarts[] = {
    {RecomputePolicy::None},     {RecomputePolicy::Attention},
    {RecomputePolicy::Layer},    {RecomputePolicy::Layer, 1},
    {RecomputePolicy::Layer, 2}, {RecomputePolicy::Layer, 3}};
static_assert(std::size(kStarts) == BudgetSettings::kMostStarts);

LogicalResult BudgetSettings::prepare(ModuleOp module) {
  layout.values = "none";
  PhaseOptions phases = layout.getPhases(options);
  tuned = module.clone();
  if (failed(runPhases(*tuned, phases, "input", "tune", layout)))
    return failure();
  // What is chosen for a step holds for all functions.
  keepTrainStep(*tuned);
  fused = tuned->clone();
  if (failed(runPhases(*fused, phases, "tune", "fuse", layout)))
    return failure();
  lowered = fused->clone();
  if (failed(runPhases(*lowered, phases, "fuse", "exec", layout)))
    return failure();
  if (auto step = findEntry(*fused, EntryKind::Train))
    recomputation = Recomputation::of(step);
  return success();
}

int BudgetSettings::countCommands() const {
  int commands = 0;
  lowered.get()->walk([&](exec::CommandOpInterface) { ++commands; });
  return commands;
}

SmallVector<int64_t> BudgetSettings::getStateSizes() const {
  auto step = findEntry(lowered.get(), EntryKind::Train);
  SmallVector<int64_t> tensors;
  for (BlockArgument argument : step.getArguments())
    if (BufferAttr buffer = getArgumentBuffer(step, argument.getArgNumber());
        buffer && buffer.getLifetime() == Lifetime::State && buffer.getOf())
      tensors.push_back(exec::getBufferBytes(argument));
  llvm::sort(tensors);
  const int64_t part =
      std::accumulate(tensors.begin(), tensors.end(), int64_t(0)) / 32;
  SmallVector<int64_t> sizes;
  int64_t sum = 0, next = part;
  for (int64_t bytes : tensors) {
    if (sum > 0 && sum + bytes > next) {
      sizes.push_back(sum);
      next = std::max(sum, next) + part;
    }
    sum += bytes;
  }
  return sizes;
}

std::vector<SettingList> BudgetSettings::list() const {
  if (!mayOffload() || !recomputation)
    return {{{""}}};
  std::vector<std::string> states = {""};
  for (int64_t bytes : getStateSizes())
    states.push_back("state=" + std::to_string(bytes));
  states.push_back("state");
  std::vector<SettingList> lists = {{states}};
  // These are copied so much longer that a few sizes of state will do.
  for (StringRef kinds : {"gradients", "parameters", "parameters,gradients"}) {
    std::vector<std::string> &list = lists.emplace_back().offloads;
    for (size_t part = 0; part <= 4; ++part) {
      const std::string &state = states[(states.size() - 1) * part / 4];
      list.push_back(state.empty() ? kinds.str() : state + "," + kinds.str());
    }
  }
  return lists;
}

Setting BudgetSettings::lower(StringRef offload) {
  Setting setting;
  setting.alone = layout;
  setting.alone.offload = offload.str();
  OwningOpRef<ModuleOp> placed = lowered->clone();
  if (failed(runPhases(*placed, setting.alone.getPhases(options), "exec",
                       "place", setting.alone)))
    return setting;
  readPrediction(*placed, options, setting.alone);
  if (window == 0)
    window = setting.alone.rankBytes / kWindowPart;
  setting.alone.offloadWindow = window;
  if (!recomputation || !setting.alone.problem.empty())
    return setting;
  PhaseOptions plain = setting.alone.getPhases(options);
  plain.schedule = "none";
  OwningOpRef<ModuleOp> unscheduled = lowered->clone();
  if (succeeded(
          runPhases(*unscheduled, plain, "exec", "schedule", setting.alone)))
    buildModel(setting, findEntry(*placed, EntryKind::Train),
               findEntry(*unscheduled, EntryKind::Train));
  return setting;
}

void BudgetSettings::buildModel(Setting &setting, func::FuncOp placed,
                                func::FuncOp unscheduled) const {
  auto build = [&](std::shared_ptr<const MeasuredCosts> measured) {
    RecomputeModel built = buildRecomputeModel(
        *recomputation, findEntry(fused.get(), EntryKind::Train), placed,
        unscheduled,
        CostModel(machine, layout.mesh.getNumRanks(), std::move(measured)));
    if (mayOffload()) {
      auto rates = *exec::Bandwidth::parse(options.offloadBandwidth);
      built.program.fetchRate = rates.in;
      built.program.storeRate = rates.out;
      built.program.copySeconds = rates.alpha;
    }
    return built;
  };
  std::shared_ptr<const MeasuredCosts> measured =
      layout.getPhases(options).getMeasured();
  setting.model = build(measured);
  if (measured)
    setting.predicted = build(nullptr).program;
  for (auto [policy, layersPerCut] : kStarts) {
    ValueChoice start{
        setting.model.getRepeated(*recomputation, policy, layersPerCut)};
    start.offloaded.resize(start.repeated.size());
    bool isKnown = llvm::any_of(setting.starts, [&](const ValueChoice &other) {
      return other.repeated == start.repeated;
    });
    if (isKnown)
      continue;
    setting.starts.push_back(std::move(start));
    StringRef name = ccl::getRecomputePolicies()[static_cast<size_t>(policy)];
    setting.policies.push_back(layersPerCut == 0 ? name.str() : "");
  }
  setting.excess =
      getCost(setting.model.program, setting.starts.front()).peakBytes -
      setting.alone.rankBytes;
}
