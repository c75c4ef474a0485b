//===- Partitioner.cpp - Rewrites operations as their rules say -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/OptimusToCCL/Partitioner.h"

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/DebugLog.h"

#include <numeric>

#define DEBUG_TYPE "optimus-partition"

using namespace mlir;
using namespace mlir::optimus;

using Axes = SmallVector<StringRef>;

ShardingAttr Partitioner::getLayout(ArrayRef<Axes> dims,
                                    ArrayRef<StringRef> unreduced) const {
  return ShardingAttr::get(
      FlatSymbolRefAttr::get(MeshOp(mesh).getSymNameAttr()), dims, unreduced);
}

void Partitioner::set(Value whole, ShardingAttr layout, Value local) {
  GradientAccumulator::copyRole(whole, local);
  values.add(whole, layout, local);
}

LogicalResult Partitioner::partition(Operation *op) {
  loc = op->getLoc();
  Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  if (failed(rewrite(op)))
    return failure();
  SmallVector<Operation *> created;
  auto first = last ? std::next(last->getIterator()) : block->begin();
  for (Operation &each : llvm::make_range(first, block->end()))
    created.push_back(&each);
  setLocations(op, created);
  return success();
}

void Partitioner::setLocations(Operation *op, ArrayRef<Operation *> created) {
  llvm::SmallDenseSet<Operation *> named;
  for (OpResult whole : op->getResults())
    for (Value local : values.getLocals(whole)) {
      auto result = dyn_cast<OpResult>(local);
      if (!result || !llvm::is_contained(created, result.getOwner()) ||
          !named.insert(result.getOwner()).second)
        continue;
      int64_t first = getFirstResult(loc) + whole.getResultNumber() -
                      result.getResultNumber();
      if (first >= 0)
        result.getOwner()->setLoc(withResult(loc, first));
    }
  for (Operation *each : created)
    if (!named.contains(each) && each->getLoc() == loc)
      each->setLoc(withPart(loc, each->getName().stripDialect()));
}

LogicalResult Partitioner::rewrite(Operation *op) {
  auto decomposable = dyn_cast<DecomposableOpInterface>(op);
  if (decomposable && succeeded(decomposable.decompose(*this))) {
    ++numDecomposed;
    LDBG() << "decomposed: " << op->getName() << " of "
           << describeLocation(loc);
    return success();
  }
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return partitionProduct(matmul);
  if (auto sum = dyn_cast<SumOpInterface>(op);
      sum && succeeded(addPartialSums(sum)))
    return success();
  if (isa<ShardingRuleOpInterface>(op))
    return partitionByRule(op);
  if (op->hasTrait<OpTrait::ConstantLike>())
    return partitionConstant(op);
  return op->emitOpError("has no sharding rule, so it cannot be partitioned");
}

void Partitioner::cloneLocally(Operation *op, ArrayRef<Value> operands,
                               ArrayRef<ShardingAttr> layouts) {
  Operation *clone = op->clone();
  clone->removeDiscardableAttr(OptimusDialect::kShardings);
  clone->removeDiscardableAttr(OptimusDialect::kMove);
  clone->setOperands(operands);
  for (auto [result, whole, layout] :
       llvm::zip(clone->getResults(), op->getResults(), layouts)) {
    result.setType(getType(whole, layout));
    LDBG() << "local: " << op->getName() << " of " << describeLocation(loc)
           << " makes " << layout;
    values.add(whole, layout, result);
  }
  builder.insert(clone);
}

SmallVector<Axes> Partitioner::getFactorAxes(Operation *op,
                                             const ShardingRule &rule) {
  SmallVector<Axes> axes(rule.factors.size());
  llvm::SmallDenseSet<StringRef> taken;
  auto take = [&](ValueRange tensors,
                  ArrayRef<SmallVector<int64_t>> factorLists, FactorKind kind) {
    for (auto [value, factors] : llvm::zip(tensors, factorLists))
      for (auto [dim, factor] : llvm::enumerate(factors)) {
        if (rule.factors[factor].kind != kind || !axes[factor].empty())
          continue;
        for (StringRef axis : getSharding(value).getDimAxes(dim))
          if (taken.insert(axis).second)
            axes[factor].push_back(axis);
      }
  };
  // Partial sums first: they can still be sharded along a dimension when
  // summed.
  take(op->getOperands(), rule.operands, FactorKind::Contracted);
  take(op->getResults(), rule.results, FactorKind::Parallel);
  return axes;
}

LogicalResult Partitioner::addPartialSums(SumOpInterface op) {
  auto isTerm = [&](OpOperand &operand) {
    return op.getContribution(operand) == Contribution::Linear &&
           operand.get().getType() == op->getResultTypes().front();
  };
  if (op->getNumResults() != 1 || !llvm::all_of(op->getOpOperands(), isTerm))
    return failure();
  // A sum over microbatches may stay a partial sum.
  ShardingAttr layout = getSharding(op->getResult(0));
  if (!layout.getUnreduced().empty()) {
    if (!llvm::all_of(op->getOperands(), [&](Value operand) {
          return values.canReach(operand, layout);
        }))
      return failure();
  } else {
    layout = values.getPartialSumLayout(op->getOperand(0));
    if (!layout || !llvm::all_of(op->getOperands(), [&](Value operand) {
          return values.getPartialSumLayout(operand) == layout;
        }))
      return failure();
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand, layout));
  // Terms rounded after their reduction are added after it.
  if (llvm::any_of(operands, [&](Value operand) {
        return getElementTypeOrSelf(operand) !=
               getElementTypeOrSelf(op->getResult(0));
      }))
    return failure();
  cloneLocally(op, operands, layout);
  return success();
}

LogicalResult Partitioner::partitionByRule(Operation *op) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  SmallVector<Axes> axes = getFactorAxes(op, rule);
  auto getDimAxes = [&](ArrayRef<int64_t> factors) {
    SmallVector<Axes> dims;
    for (int64_t factor : factors)
      dims.push_back(axes[factor]);
    return dims;
  };
  SmallVector<Value> operands;
  for (auto [number, factors] : llvm::enumerate(rule.operands))
    for (auto [dim, factor] : llvm::enumerate(factors)) {
      const DimensionClasses::Class &extent =
          classes.getClass(op->getOperand(number), dim);
      if (rule.factors[factor].kind == FactorKind::Whole &&
          !rule.factors[factor].allowsPadding &&
          extent.getPadded() != extent.size)
        return op->emitOpError("dimension ")
               << dim << " (\"" << extent.name << "\") of operand " << number
               << " has size " << extent.size << ", which is padded to "
               << extent.getPadded()
               << " because axes shard it elsewhere, but must be whole here; "
                  "choose a mesh that divides it, or another strategy";
    }
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    operands.push_back(
        values.get(operand, getLayout(getDimAxes(factors)), loc));
  SmallVector<ShardingAttr> layouts;
  for (ArrayRef<int64_t> factors : rule.results) {
    // What is sharded and does not reach the result makes partial sums of it.
    Axes unreduced;
    for (auto [factor, sharded] : llvm::enumerate(axes))
      if (!llvm::is_contained(factors, static_cast<int64_t>(factor)))
        llvm::append_range(unreduced, sharded);
    layouts.push_back(getLayout(getDimAxes(factors), unreduced));
  }
  cloneLocally(op, operands, layouts);
  return success();
}

LogicalResult Partitioner::partitionConstant(Operation *op) {
  Value result = op->getResult(0);
  ShardingAttr sharding = getSharding(result);
  if (getType(result, sharding) != result.getType())
    return op->emitOpError(
        "is a constant that is sharded or padded; expected it "
        "whole on every rank");
  cloneLocally(op, {}, sharding);
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult
Partitioner::partitionWhole(MatmulOp op, const ccl::ProductSharding &sharding) {
  Value tensors[3] = {op.getA(), op.getB(), op.getResult()};
  ShardingAttr layouts[3];
  for (auto [tensor, value] : llvm::enumerate(tensors)) {
    layouts[tensor] = getSharding(value);
    for (int group = 0; group < 3; ++group)
      if (int64_t dim = sharding.dims[tensor][group]; dim >= 0)
        layouts[tensor] = layouts[tensor].withDimAxes(
            dim, ArrayRef(layouts[tensor].getDimAxes(dim)).drop_back());
  }
  // K is whole or sharded alike: what is not summed here are partial sums.
  layouts[2] = layouts[2].withUnreduced(sharding.shared[1]);
  LDBG() << "moves whole: " << op->getName() << " of " << describeLocation(loc);
  Value a = values.getTransient(op.getA(), layouts[0], loc);
  Value b = values.getTransient(op.getB(), layouts[1], loc);
  cloneLocally(op, {a, b}, layouts[2]);
  return success();
}

LogicalResult Partitioner::partitionProduct(MatmulOp op) {
  if (op.getBias() || op.getResidual() || op.getScale())
    return op.emitOpError("has a bias, residual or scale, which products take "
                          "in after they are partitioned; run --optimus-fuse "
                          "later");
  ShardingAttr shardings[3] = {getSharding(op.getA()), getSharding(op.getB()),
                               getSharding(op.getResult())};
  FailureOr<ccl::ProductSharding> sharding = ccl::getProductSharding(
      op.getNumM(), op.getNumK(), op.getNumN(), op.getTransposeA(),
      op.getTransposeB(), mesh, [&](int tensor, int64_t dim) {
        return shardings[tensor].getDimAxes(dim);
      });
  std::optional<ccl::ProductForm::Tensor> stationary;
  if (succeeded(sharding))
    stationary = sharding->getStationary();
  if (!stationary) {
    ++numLocal;
    return partitionByRule(op);
  }
  auto move = op->getAttrOfType<StringAttr>(OptimusDialect::kMove);
  int64_t panels = 1;
  for (const auto &axes : sharding->axes)
    for (StringRef axis : axes)
      if (!axis.empty())
        panels = std::lcm(panels, *mesh.getAxisSize(axis));
  bool hasTooMany = panels > ccl::kMostPanels;
  if (hasTooMany && move && move == OptimusDialect::kMovePanels)
    return op.emitOpError("must move in ")
           << panels << " panels at least on this mesh, as '"
           << OptimusDialect::kMove << "' asks, but expected at most "
           << ccl::kMostPanels
           << "; leave the attribute out, so that tensors move whole, or "
              "choose "
              "another mesh";
  if (hasTooMany || (move && move == OptimusDialect::kMoveWhole)) {
    ++numLocal;
    return partitionWhole(op, *sharding);
  }
  ShardingAttr layout =
      shardings[2].withUnreduced(sharding->getUnreduced(*stationary));
  Value a = get(op.getA()), b = get(op.getB());
  constexpr StringLiteral names[] = {"a", "b", "c"};
  auto type = cast<RankedTensorType>(getType(op.getResult(), layout));
  // Ranks add up what moves.
  if (names[*stationary] != "c")
    type = type.clone(values.getPartialSumType(op.getResult()));
  Value product = ccl::MatmulOp::create(
      builder, loc, type, a, b, op.getContracting(), op.getTransposeA(),
      op.getTransposeB(), names[*stationary], panels);
  // A choice of the user's holds for what comes after, too.
  if (move)
    product.getDefiningOp()->setAttr(OptimusDialect::kMove, move);
  if (layout.getUnreduced().empty())
    product = values.complete(product, getElementTypeOrSelf(op.getResult()));
  set(op.getResult(), layout, product);
  ++numDistributed;
  LDBG() << "distributed: " << op->getName() << " of " << describeLocation(loc)
         << ", " << names[*stationary] << " stationary, " << panels
         << " panels";
  return success();
}
