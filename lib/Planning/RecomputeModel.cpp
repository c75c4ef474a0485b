//===- RecomputeModel.cpp - A step as its chooser sees it -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecomputeModel.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/ValuePattern.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The commands of an operation, and their time.
struct Commands {
  double seconds = 0;
  int64_t others = 0;
};

class ModelBuilder {
public:
  ModelBuilder(const ccl::Recomputation &recomputation, func::FuncOp function,
               func::FuncOp placed, func::FuncOp unscheduled,
               const CostModel &costs)
      : recomputation(recomputation), function(function), placed(placed),
        unscheduled(unscheduled), costs(costs) {}

  RecomputeModel build() {
    numberValues();
    measureCommands();
    for (Operation &op : function.front())
      addOp(&op);
    model.program.numForward = recomputation.getForward().size();
    return std::move(model);
  }

private:
  void addValue(Value value, std::string id, int64_t bytes) {
    model.numbers[value] = model.ids.size();
    model.ids.push_back(std::move(id));
    model.program.bytes.push_back(bytes);
    model.program.refetched.push_back(recomputation.isRefetched(value));
    auto op = value.getDefiningOp<RowReductionOpInterface>();
    model.program.statistics.push_back(
        op && llvm::is_contained(op.getRowStatistics(),
                                 cast<OpResult>(value).getResultNumber()));
  }

  /// Values that lie in arguments and outputs have no place in the arena.
  void numberValues() {
    placed.walk([&](exec::ArenaSlotOp slot) {
      if (ArrayAttr values = slot.getValuesAttr())
        for (auto value : values.getAsRange<StringAttr>())
          inArena.insert(value.getValue());
    });
    for (BlockArgument argument : function.getArguments())
      addValue(argument, "", 0);
    for (Operation &op : function.front())
      for (OpResult result : op.getResults()) {
        std::string id = getValueId(result);
        int64_t bytes =
            inArena.contains(id) ? optimus::getBytes(result.getType()) : 0;
        known.insert(id);
        addValue(result, std::move(id), bytes);
      }
  }

  bool isOther(exec::AllocOp buffer) const {
    ArrayAttr values = buffer.getValuesAttr();
    return !values ||
           llvm::none_of(values.getAsRange<StringAttr>(), [&](StringAttr id) {
             return known.contains(id.getValue());
           });
  }

  /// What is alive beside the values of the program: workspace, panels and
  /// packed weights.
  SmallVector<int64_t> getOthers() {
    return exec::computeAliveBytes(unscheduled, [&](Value base) {
      auto buffer = base.getDefiningOp<exec::AllocOp>();
      return buffer && isOther(buffer) &&
             exec::getMemorySpace(base) == exec::MemorySpace::Device;
    });
  }

  void measureCommands() {
    SmallVector<int64_t> others = getOthers();
    // Of communication, what is waited for.
    StepPrediction step = costs.predictStep(placed);
    double waited =
        step.commSeconds > 0 ? step.exposedSeconds / step.commSeconds : 0;
    placed.walk([&](exec::CommandOpInterface command) {
      Commands &own = commands[command->getLoc()];
      if (auto start = dyn_cast<exec::CollectiveStartOp>(*command))
        own.seconds += waited * costs.getSeconds(start);
      else if (!isa<exec::WaitOp>(*command))
        own.seconds += costs.getComputeSeconds(command);
    });
    int64_t position = 0;
    unscheduled.walk([&](exec::CommandOpInterface command) {
      int64_t &own = commands[command->getLoc()].others;
      own = std::max(own, others[position++]);
    });
  }

  void addOp(Operation *op) {
    RecomputeProgram::Op &added = model.program.ops.emplace_back();
    const Commands &own = commands.lookup(op->getLoc());
    added.seconds = own.seconds;
    added.others = own.others;
    for (Value operand : op->getOperands())
      added.operands.push_back(model.numbers.lookup(operand));
    auto lowering = dyn_cast<ExecLoweringOpInterface>(op);
    for (OpResult result : op->getResults()) {
      unsigned number = model.numbers.lookup(result);
      added.results.push_back(number);
      if (lowering)
        for (unsigned operand :
             lowering.getInPlaceOperands(result.getResultNumber()))
          added.places.push_back({number, added.operands[operand]});
      added.isRepeatable =
          recomputation.isActivation(result) && recomputation.isRepeatable(op);
    }
    // Those of equal layers differ in a number of their ids.
    if (op->getNumResults() > 0)
      added.kind = kinds
                       .try_emplace(getPattern(getValueId(op->getResult(0))),
                                    kinds.size())
                       .first->second;
  }

  const ccl::Recomputation &recomputation;
  func::FuncOp function, placed, unscheduled;
  const CostModel &costs;
  RecomputeModel model;
  /// Ids.
  llvm::StringSet<> inArena, known;
  /// By pattern of ids.
  llvm::StringMap<unsigned> kinds;
  llvm::DenseMap<Location, Commands> commands;
};
} // namespace

RecomputeModel mlir::optimus::buildRecomputeModel(
    const ccl::Recomputation &recomputation, func::FuncOp function,
    func::FuncOp placed, func::FuncOp unscheduled, const CostModel &costs) {
  return ModelBuilder(recomputation, function, placed, unscheduled, costs)
      .build();
}

RepeatedValues
RecomputeModel::getRepeated(const ccl::Recomputation &recomputation,
                            ccl::RecomputePolicy policy,
                            size_t layersPerCut) const {
  RepeatedValues repeated(ids.size());
  for (Value value : recomputation.select(policy, layersPerCut))
    repeated[numbers.lookup(value)] = true;
  return repeated;
}

std::string RecomputeModel::describe(const RepeatedValues &repeated) const {
  std::map<std::string, std::vector<std::string>> byPattern;
  for (auto [number, id] : llvm::enumerate(ids))
    if (repeated[number])
      byPattern[getPattern(id)].push_back(id);
  std::vector<std::string> names;
  for (const auto &[pattern, members] : byPattern) {
    ValuePattern glob = llvm::cantFail(ValuePattern::create(pattern));
    bool isWhole = true;
    for (auto [number, id] : llvm::enumerate(ids))
      isWhole &= repeated[number] || !glob.matches(id);
    if (isWhole && members.size() > 1)
      names.push_back(pattern);
    else
      names.insert(names.end(), members.begin(), members.end());
  }
  return llvm::join(names, ",");
}
