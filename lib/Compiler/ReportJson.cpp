//===- ReportJson.cpp - The report for programs -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportJson.h"

#include "Report.h"

#include "optimus/Analysis/CostModel.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Planning/RankMemory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;
namespace json = llvm::json;

/// What a batch is padded to a multiple of: the shards of tokens. Nothing where
/// there are no tokens.
static std::optional<int64_t> getBatchMultiple(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      BufferAttr buffer = getArgumentBuffer(function, i);
      auto local =
          function.getArgAttrOfType<TypeAttr>(i, ExecDialect::kLocalType);
      if (!buffer || buffer.getRole() != "tokens" || !local)
        continue;
      int64_t shards = 1;
      for (StringRef axis : ccl::getDimAxes(local.getValue(), 0))
        shards *= getRanksAlong(getMesh(function), axis);
      return shards;
    }
  return std::nullopt;
}

/// What the module says of its model in numbers; it may say nothing.
static json::Object describeModel(ModuleOp module) {
  json::Object model;
  if (auto described =
          module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel))
    for (NamedAttribute entry : described)
      if (auto number = dyn_cast<IntegerAttr>(entry.getValue()))
        model[entry.getName().getValue()] = number.getInt();
  if (std::optional<int64_t> multiple = getBatchMultiple(module))
    model["batch_multiple"] = *multiple;
  return model;
}

/// Texts, counts and times.
static json::Object describeEntries(DictionaryAttr entries) {
  json::Object object;
  for (NamedAttribute one : entries) {
    StringRef name = one.getName().getValue();
    if (auto text = dyn_cast<StringAttr>(one.getValue()))
      object[name] = text.getValue();
    else if (auto count = dyn_cast<IntegerAttr>(one.getValue()))
      object[name] = count.getInt();
    else if (auto ms = dyn_cast<FloatAttr>(one.getValue()))
      object[name] = ms.getValueAsDouble();
  }
  return object;
}

/// What a rank waits for, the longest first.
static json::Array describeWaits(DictionaryAttr schedule) {
  json::Array waits;
  if (auto list = schedule.getAs<ArrayAttr>("waits"))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      waits.push_back(describeEntries(entry));
  return waits;
}

/// The milliseconds of a call by each further profile; its order stays.
static json::Object priceAlso(func::FuncOp function,
                              const CompileOptions &options) {
  json::Object times;
  for (const auto &[name, machine] : options.alsoPriced) {
    const CostModel costs(machine, options.phases.mesh.getNumRanks());
    times[name] = costs.predictStep(function).getSeconds() * 1e3;
  }
  return times;
}

/// The kind of a function, and what a call takes by the cost model.
static json::Object describeTime(func::FuncOp function,
                                 const CompileOptions &options) {
  json::Object times{{"kind", stringifyEntryKind(getEntryKind(function))}};
  auto schedule =
      function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
  if (!schedule)
    return times;
  for (StringRef name :
       {"predicted_step_ms", "predicted_comm_ms", "predicted_exposed_ms"})
    if (auto ms = schedule.getAs<FloatAttr>(name))
      times[name] = ms.getValueAsDouble();
  json::Object parts;
  if (auto kinds = schedule.getAs<DictionaryAttr>("predicted_parts_ms"))
    for (NamedAttribute kind : kinds)
      parts[kind.getName().getValue()] =
          cast<FloatAttr>(kind.getValue()).getValueAsDouble();
  times["predicted_parts_ms"] = std::move(parts);
  times["waits"] = describeWaits(schedule);
  if (auto carried = schedule.getAs<DictionaryAttr>("carried"))
    times["carried"] = describeEntries(carried);
  if (!options.alsoPriced.empty())
    times["also_priced_ms"] = priceAlso(function, options);
  return times;
}

static json::Object describe(const RankMemory &memory) {
  json::Object parts{
      {"parameters", memory.parameters}, {"state", memory.state},
      {"gradients", memory.gradients},   {"inputs", memory.inputs},
      {"arena", memory.arena},           {"scratch", memory.scratch},
      {"total", memory.getTotal()}};
  // Loading has some, of weights held in a prepared form alone.
  if (memory.staging > 0)
    parts["staging"] = memory.staging;
  return parts;
}

/// Of each kind in the arena, the most that is alive at once; kinds have their
/// most at different times.
static json::Object describeMost(func::FuncOp function) {
  json::Object kinds;
  auto bytes = function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes);
  for (NamedAttribute kind :
       bytes ? bytes.getValue() : ArrayRef<NamedAttribute>()) {
    SmallVector<int64_t> alive =
        exec::computeAliveBytes(function, [&](Value base) {
          auto slot = base.getDefiningOp<exec::ArenaSlotOp>();
          return slot && slot.getCategory() == kind.getName().getValue();
        });
    kinds[kind.getName().getValue()] =
        alive.empty() ? 0 : *llvm::max_element(alive);
  }
  return kinds;
}

/// What was weighed, the fastest first; not what cannot be or was ruled out.
static json::Array describeLayouts(const CompileOptions &options) {
  std::vector<Candidate> layouts = options.layouts;
  llvm::erase_if(layouts,
                 [](const Candidate &one) { return !one.isPredicted(); });
  llvm::stable_sort(layouts, [](const Candidate &a, const Candidate &b) {
    return a.stepMs < b.stepMs;
  });
  json::Array list;
  for (const Candidate &one : layouts) {
    const PhaseOptions phases = one.getPhases(options.phases);
    list.push_back(
        json::Object{{"mesh", phases.mesh.toString()},
                     {"strategy", one.strategy},
                     {"recompute", phases.recompute},
                     {"step_ms", one.stepMs},
                     {"rank_bytes", one.rankBytes},
                     {"estimated", one.isEstimated},
                     {"fits", !options.memoryBudget ||
                                  one.rankBytes <= *options.memoryBudget}});
  }
  return list;
}

/// What was simulated, the fastest first.
static json::Array describeFinalists(const CompileOptions &options) {
  json::Array list;
  for (const Finalist &one : options.finalists) {
    const PhaseOptions phases = one.layout.getPhases(options.phases);
    json::Object entry{
        {"mesh", phases.mesh.toString()},
        {"strategy", one.layout.strategy},
        {"recompute", phases.recompute},
        {"placement", optimus_simulation::printTile(one.placement)},
        {"closed_form_ms", one.layout.stepMs}};
    if (one.problem.empty())
      entry["step_ms"] = one.stepMs;
    else
      entry["problem"] = one.problem;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string mlir::optimus::buildReportJson(ModuleOp module,
                                           const CompileOptions &options) {
  RankMemoryTable table = getRankMemoryTable(module, options.isForGpu());
  json::Object schedules, memory, most;
  for (const auto &[name, held, isJudged] : table.rows) {
    memory[name] = describe(held);
    if (auto function = module.lookupSymbol<func::FuncOp>(name)) {
      schedules[name] = describeTime(function, options);
      most[name] = describeMost(function);
    }
  }
  const PhaseOptions &phases = options.phases;
  const SmallVector<MemoryLimit> bounds = getMemoryLimits(options);
  json::Array limits;
  for (const MemoryLimit &bound : bounds)
    limits.push_back(json::Object{{"of", bound.owner}, {"bytes", bound.bytes}});
  json::Object report{{"model", describeModel(module)},
                      {"target", phases.target},
                      {"mesh", phases.mesh.toString()},
                      {"strategy", phases.describeStrategies()},
                      {"recompute", phases.recompute},
                      {"offload", phases.offload},
                      {"schedule", std::move(schedules)},
                      {"memory", std::move(memory)},
                      {"most", std::move(most)},
                      {"rank_bytes", table.getMost()},
                      {"lanes", phases.lanes},
                      {"limits", std::move(limits)}};
  if (!options.layouts.empty())
    report["layouts"] = describeLayouts(options);
  if (options.cluster) {
    report["cluster"] = options.cluster->name;
    report["finalists"] = describeFinalists(options);
  }
  if (phases.mesh.getNumRanks() == 1) {
    int64_t most = optimus_support::kMaxLanes;
    for (const MemoryLimit &bound : bounds)
      most = std::min(most, table.countFitting(bound.bytes, phases.lanes));
    report["most_lanes"] = most;
  }
  return llvm::formatv("{0:2}\n", json::Value(std::move(report))).str();
}
