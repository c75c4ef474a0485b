//===- Partition.cpp - Rewrites a sharded program into what one rank does -*-
// C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckSizes.h"
#include "SumOrder.h"

#include "optimus/Conversion/OptimusToCCL/Partitioner.h"
#include "optimus/Conversion/OptimusToCCL/Passes.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-partition"

namespace mlir::optimus {
#define GEN_PASS_DEF_PARTITIONPASS
#include "optimus/Conversion/OptimusToCCL/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// Every value has a sharding.
static LogicalResult checkDecided(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected one block, found ")
           << function.getBody().getBlocks().size();
  for (BlockArgument argument : function.getArguments())
    if (!getSharding(argument))
      return function.emitOpError("argument ")
             << argument.getArgNumber()
             << " has no sharding; run --optimus-shard first";
  for (Operation &op : function.front())
    for (OpResult result : op.getResults())
      if (!getSharding(result))
        return op.emitOpError("result ")
               << result.getResultNumber()
               << " has no sharding; run --optimus-shard first";
  return success();
}

namespace {
class PartitionPass : public optimus::impl::PartitionPassBase<PartitionPass> {
public:
  using PartitionPassBase::PartitionPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (reducePrecision.empty() || reducePrecision == "f32")
      return success();
    return emitError(UnknownLoc::get(context))
           << "unknown reduce-precision '" << reducePrecision
           << "'; expected f32";
  }

  void runOnOperation() override {
    MeshOp mesh = getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError(
          "expected a mesh in the module; run --optimus-shard first");
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (failed(checkDecided(function)))
        return signalPassFailure();
      functions.push_back(function);
    }
    // What continues a partial sum decides whether it can stay one.
    std::stable_partition(functions.begin(), functions.end(), hasPartialSums);
    // On one rank nothing is reduced.
    if (mesh.getNumRanks() > 1)
      for (func::FuncOp function : functions)
        addProductsFirst(function, reducePrecision == "f32");
    DimensionClasses classes(getOperation());
    for (func::FuncOp function : functions)
      if (failed(checkPadding(function, classes)))
        return signalPassFailure();
    warnOfPadding(getOperation(), classes);
    for (func::FuncOp function : functions)
      if (failed(partition(function, mesh, classes)) ||
          failed(checkTotals(function, mesh)))
        return signalPassFailure();
  }

private:
  static ShardingAttr getResultSharding(func::FuncOp function,
                                        unsigned number) {
    auto wanted = function.getResultAttrOfType<ShardingAttr>(
        number, OptimusDialect::kSharding);
    return wanted ? wanted
                  : getSharding(
                        function.front().getTerminator()->getOperand(number));
  }

  static bool hasPartialSums(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (!getResultSharding(function, i).getUnreduced().empty())
        return true;
    return false;
  }

  /// Makes the sum that is a function's result complete after all, wherever it
  /// is bound: some gradient in it does not come as partial sums.
  void makeComplete(func::FuncOp function, unsigned number) {
    auto complete = [](ShardingAttr sharding) {
      return sharding.withUnreduced({});
    };
    Value value = function.front().getTerminator()->getOperand(number);
    LDBG() << "@" << function.getSymName() << ": result " << number
           << " cannot stay a partial sum; all functions complete it";
    if (auto sum = value.getDefiningOp<SumOpInterface>())
      sum->setAttr(OptimusDialect::kShardings,
                   ArrayAttr::get(&getContext(), complete(getSharding(value))));
    BufferAttr buffer = getResultBuffer(function, number);
    for (auto other : getOperation().getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < other.getNumArguments(); ++i)
        if (getArgumentBuffer(other, i) == buffer)
          if (auto sharding = other.getArgAttrOfType<ShardingAttr>(
                  i, OptimusDialect::kSharding))
            other.setArgAttr(i, OptimusDialect::kSharding, complete(sharding));
      for (unsigned i = 0; i < other.getNumResults(); ++i)
        if (getResultBuffer(other, i) == buffer)
          if (auto sharding = other.getResultAttrOfType<ShardingAttr>(
                  i, OptimusDialect::kSharding))
            other.setResultAttr(i, OptimusDialect::kSharding,
                                complete(sharding));
    }
  }

  LogicalResult partition(func::FuncOp function, MeshOp mesh,
                          const DimensionClasses &classes) {
    Block *whole = &function.front();
    auto *local = new Block;
    function.getBody().push_back(local);
    OpBuilder builder = OpBuilder::atBlockEnd(local);
    Partitioner partitioner(builder, mesh, classes, reducePrecision == "f32");
    LocalValues &values = partitioner.getValues();
    for (BlockArgument argument : whole->getArguments()) {
      ShardingAttr sharding = getSharding(argument);
      values.add(argument, sharding,
                 local->addArgument(values.getType(argument, sharding),
                                    argument.getLoc()));
    }
    for (Operation &op : whole->without_terminator())
      if (failed(partitioner.partition(&op)))
        return failure();

    Operation *terminator = whole->getTerminator();
    SmallVector<Value> results;
    for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
      ShardingAttr wanted = getResultSharding(function, number);
      if (!values.canReach(value, wanted)) {
        local->erase();
        makeComplete(function, number);
        return partition(function, mesh, classes);
      }
      results.push_back(values.get(value, wanted, value.getLoc()));
    }
    func::ReturnOp::create(builder, terminator->getLoc(), results);
    nameValues(*local);

    whole->dropAllUses();
    whole->erase();
    function.setType(FunctionType::get(&getContext(), local->getArgumentTypes(),
                                       ValueRange(results).getTypes()));
    auto eraseSharding = [](unsigned, NamedAttrList &attributes) {
      attributes.erase(OptimusDialect::kSharding);
    };
    updateArgAttrs(function, eraseSharding);
    updateResultAttrs(function, eraseSharding);
    numLocal += partitioner.getNumLocal();
    numDistributed += partitioner.getNumDistributed();
    numDecomposed += partitioner.getNumDecomposed();
    numCollectives += values.getNumCollectives();
    return success();
  }
};
} // namespace
