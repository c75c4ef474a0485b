//===- Rounding.cpp - What rounding does to a function's results *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/Rounding.h"

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallSet.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

/// Roundings of one element outside sums. The most are those of an exponential
/// or of GELU, whose polynomials are accurate to a few units in the last place.
static constexpr double kElementwise = 8;

static double getExtent(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// The extent of the contracted group of a distributed product on all ranks:
/// panels and reductions are an order of that sum, and any order adds a term up
/// at most so many times.
static double getContractedExtent(ccl::MatmulOp op) {
  auto type = cast<RankedTensorType>(op.getA().getType());
  int64_t k = op.getContracting();
  int64_t first = op.getTransposeA() ? 0 : type.getRank() - k;
  MeshOp mesh = getMesh(op);
  double extent = 1;
  for (int64_t dim = first; dim < first + k; ++dim)
    extent *= static_cast<double>(type.getDimSize(dim)) *
              mesh.getProduct(ccl::getDimAxes(type, dim));
  return extent;
}

/// What the chunks of a sharded head add up: the hidden dimension for logits,
/// the vocabulary for the softmax and the gradient of h, tokens for the rest.
static double countHeadRoundings(Operation *op) {
  Value h = op->getOperand(0), table = op->getOperand(1);
  int64_t rank = cast<RankedTensorType>(h.getType()).getRank();
  double tokens = 1;
  for (int64_t dim = 0; dim < rank - 1; ++dim)
    tokens *= getExtent(h, dim);
  auto axes = ccl::getDimAxes(table.getType(), 0);
  return kElementwise + tokens + getExtent(table, 1) + getExtent(table, 0) +
         getMesh(op).getProduct(axes);
}

static double countByRule(ShardingRuleOpInterface op, unsigned result) {
  ShardingRule rule = op.getShardingRule();
  llvm::SmallSet<int64_t, 8> read, written;
  for (ArrayRef<int64_t> dims : rule.operands)
    read.insert(dims.begin(), dims.end());
  written.insert(rule.results[result].begin(), rule.results[result].end());
  double middle = 0, lost = 1;
  bool loses = false;
  for (auto [number, factor] : llvm::enumerate(rule.factors)) {
    if (factor.kind == FactorKind::Reduced || factor.kind == FactorKind::Whole)
      middle += factor.size;
    else if (read.contains(number) && !written.contains(number)) {
      lost *= factor.size;
      loses = true;
    }
  }
  return kElementwise + middle + (loses ? lost : 0);
}

double mlir::optimus::countRoundings(OpResult result) {
  Operation *op = result.getOwner();
  if (auto reduce = dyn_cast<ccl::AllReduceOp>(op))
    return *getMesh(op).getAxisSize(reduce.getAxis());
  if (auto scatter = dyn_cast<ccl::ReduceScatterOp>(op))
    return *getMesh(op).getAxisSize(scatter.getAxis());
  // A look-up adds nothing but zeros.
  if (isa<ccl::AllGatherOp, ccl::SliceOp, EmbeddingOp, ReshardOp>(op))
    return 0;
  if (auto product = dyn_cast<ccl::MatmulOp>(op))
    return getContractedExtent(product);
  if (isa<ccl::HeadLossOp, ccl::HeadLossGradOp>(op))
    return countHeadRoundings(op);
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op))
    return countByRule(ruled, result.getResultNumber());
  return kElementwise;
}

double mlir::optimus::estimateRounding(Value value) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> open{value};
  double sum = 0;
  while (!open.empty()) {
    auto result = dyn_cast<OpResult>(open.pop_back_val());
    if (!result || !seen.insert(result).second)
      continue;
    sum += countRoundings(result);
    llvm::append_range(open, result.getOwner()->getOperands());
  }
  return std::sqrt(sum);
}
