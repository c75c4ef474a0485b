//===- Partitioner.cpp - Rewrites operations as their rules say -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/OptimusToCCL/Partitioner.h"

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h"

#include "llvm/ADT/DenseSet.h"

#include <numeric>

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
  auto decomposable = dyn_cast<DecomposableOpInterface>(op);
  if (decomposable && succeeded(decomposable.decompose(*this))) {
    ++numDecomposed;
    return success();
  }
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return partitionProduct(matmul);
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
  clone->setOperands(operands);
  for (auto [result, whole, layout] :
       llvm::zip(clone->getResults(), op->getResults(), layouts)) {
    result.setType(getType(whole, layout));
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
  // Addends first: they can still be cut along a dimension when summed.
  take(op->getOperands(), rule.operands, FactorKind::Contracted);
  take(op->getResults(), rule.results, FactorKind::Parallel);
  return axes;
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
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    operands.push_back(
        values.get(operand, getLayout(getDimAxes(factors)), loc));
  SmallVector<ShardingAttr> layouts;
  for (ArrayRef<int64_t> factors : rule.results) {
    // A cut that does not reach the result makes addends of it.
    Axes unreduced;
    for (auto [factor, cut] : llvm::enumerate(axes))
      if (!llvm::is_contained(factors, static_cast<int64_t>(factor)))
        llvm::append_range(unreduced, cut);
    layouts.push_back(getLayout(getDimAxes(factors), unreduced));
  }
  cloneLocally(op, operands, layouts);
  return success();
}

LogicalResult Partitioner::partitionConstant(Operation *op) {
  Value result = op->getResult(0);
  ShardingAttr sharding = getSharding(result);
  if (getType(result, sharding) != result.getType())
    return op->emitOpError("is a constant that is cut or padded; expected it "
                           "whole on every rank");
  cloneLocally(op, {}, sharding);
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
/// How a group of a tensor's dimensions is cut: by one axis, or not at all.
struct GroupCut {
  StringRef axis;
  /// The dimension within the group.
  int64_t position = 0;

  bool operator==(const GroupCut &other) const = default;
};

/// The cuts of the tensors A [M, K], B [K, N] and C [M, N] of a product, each
/// group M, K, N in the two tensors that have it.
struct ProductCuts {
  enum Tensor { A, B, C };
  GroupCut mOfA, kOfA, kOfB, nOfB, mOfC, nOfC;
};
} // namespace

/// Reads how dimensions [begin, begin + size) are cut; fails where more than
/// one axis cuts them.
static LogicalResult readCut(ShardingAttr sharding, int64_t begin, int64_t size,
                             GroupCut &cut) {
  for (int64_t i = 0; i < size; ++i) {
    Axes axes = sharding.getDimAxes(begin + i);
    if (axes.empty())
      continue;
    if (axes.size() > 1 || !cut.axis.empty())
      return failure();
    cut = {axes.front(), i};
  }
  return success();
}

static FailureOr<ProductCuts> readCuts(MatmulOp op) {
  int64_t m = op.getNumM(), k = op.getNumK(), n = op.getNumN();
  bool ta = op.getTransposeA(), tb = op.getTransposeB();
  ShardingAttr a = getSharding(op.getA()), b = getSharding(op.getB()),
               c = getSharding(op.getResult());
  ProductCuts cuts;
  if (failed(readCut(a, ta ? k : 0, m, cuts.mOfA)) ||
      failed(readCut(a, ta ? 0 : m, k, cuts.kOfA)) ||
      failed(readCut(b, tb ? n : 0, k, cuts.kOfB)) ||
      failed(readCut(b, tb ? 0 : k, n, cuts.nOfB)) ||
      failed(readCut(c, 0, m, cuts.mOfC)) ||
      failed(readCut(c, m, n, cuts.nOfC)))
    return failure();
  return cuts;
}

/// The tensor that stays in place where exactly the index that it lacks is cut
/// differently in the two others. Panels of a result are summed over the axis
/// that cuts the contracted index, so they must belong along it.
static std::optional<ProductCuts::Tensor>
getStationary(const ProductCuts &cuts) {
  bool m = cuts.mOfA == cuts.mOfC, k = cuts.kOfA == cuts.kOfB,
       n = cuts.nOfB == cuts.nOfC;
  auto canStream = [](const GroupCut &one, const GroupCut &other) {
    return one.axis.empty() || other.axis.empty() ||
           one.position == other.position;
  };
  if (m && n && !k && canStream(cuts.kOfA, cuts.kOfB))
    return ProductCuts::C;
  if (m && k && !n && canStream(cuts.nOfB, cuts.nOfC) &&
      cuts.nOfC.axis == cuts.kOfA.axis)
    return ProductCuts::A;
  if (n && k && !m && canStream(cuts.mOfA, cuts.mOfC) &&
      cuts.mOfC.axis == cuts.kOfA.axis)
    return ProductCuts::B;
  return std::nullopt;
}

LogicalResult Partitioner::partitionProduct(MatmulOp op) {
  if (op.getBias() || op.getResidual() || op.getScale())
    return op.emitOpError("has a bias, residual or scale, which products take "
                          "in after they are partitioned; run --optimus-fuse "
                          "later");
  FailureOr<ProductCuts> cuts = readCuts(op);
  auto stationary = failed(cuts) ? std::nullopt : getStationary(*cuts);
  if (!stationary) {
    ++numLocal;
    return partitionByRule(op);
  }
  const GroupCut *streamed[3][2] = {{&cuts->nOfB, &cuts->nOfC},
                                    {&cuts->mOfA, &cuts->mOfC},
                                    {&cuts->kOfA, &cuts->kOfB}};
  int64_t panels = 1;
  for (const GroupCut *cut : streamed[*stationary])
    if (!cut->axis.empty())
      panels = std::lcm(panels, *mesh.getAxisSize(cut->axis));
  ShardingAttr layout = getSharding(op.getResult());
  Value a = get(op.getA()), b = get(op.getB());
  constexpr StringLiteral names[] = {"a", "b", "c"};
  Value product = ccl::MatmulOp::create(
      builder, loc, getType(op.getResult(), layout), a, b, op.getContracting(),
      op.getTransposeA(), op.getTransposeB(), names[*stationary], panels);
  set(op.getResult(), layout, product);
  ++numDistributed;
  return success();
}
