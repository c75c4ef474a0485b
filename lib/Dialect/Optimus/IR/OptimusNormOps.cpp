//===- OptimusNormOps.cpp - Normalisation -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "Einsums.h"
#include "Gradients.h"
#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

/// Checks that `x` has a row to normalise.
static LogicalResult expectRow(Operation *op, Value x) {
  if (!shapeOf(x).empty())
    return success();
  return op->emitOpError("expected x of rank 1 at least, found a scalar");
}

/// Checks the statistics of the rows of x.
static LogicalResult expectStatistics(Operation *op, StringRef label, Value x,
                                      Value mean, Value rstd) {
  ArrayRef<int64_t> rows = shapeOf(x).drop_back();
  if (failed(expectShape(op, label, "mean", mean, rows)))
    return failure();
  return expectShape(op, label, "rstd", rstd, rows);
}

LogicalResult LayerNormOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "a result", getResult(), x)) ||
      failed(expectStatistics(*this, "C2", getX(), getMean(), getRstd())) ||
      failed(expectShape(*this, "C3", "gamma", getGamma(), x.back())))
    return failure();
  return expectShape(*this, "C3", "beta", getBeta(), x.back());
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "dy", getDy(), x)) ||
      failed(expectShape(*this, "C1", "dx", getDx(), x)) ||
      (getResidual() &&
       failed(expectShape(*this, "C1", "residual", getResidual(), x))) ||
      failed(expectStatistics(*this, "C2", getX(), getMean(), getRstd())) ||
      failed(expectShape(*this, "C3", "gamma", getGamma(), x.back())) ||
      failed(expectShape(*this, "C3", "dgamma", getDgamma(), x.back())))
    return failure();
  return expectShape(*this, "C3", "dbeta", getDbeta(), x.back());
}

LogicalResult RowMomentsOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  return expectShape(*this, "C1", "moments", getMoments(),
                     append(shapeOf(getX()).drop_back(), 2));
}

LogicalResult MergeMomentsOp::verify() {
  ArrayRef<int64_t> moments = shapeOf(getMoments());
  int64_t expected = 2 * getCounts().size();
  if (moments.empty() || moments.back() != expected)
    return emitOpError("C1: expected ")
           << expected << " elements a row for " << getCounts().size()
           << " counts, found " << toString(moments);
  if (failed(
          expectShape(*this, "C2", "mean", getMean(), moments.drop_back())) ||
      failed(expectShape(*this, "C2", "rstd", getRstd(), moments.drop_back())))
    return failure();
  if (llvm::any_of(getCounts(), [](int64_t count) { return count < 0; }) ||
      llvm::none_of(getCounts(), [](int64_t count) { return count > 0; }))
    return emitOpError("C3: expected counts of 0 at least, and a positive one, "
                       "found ")
           << toString(getCounts());
  CheckedSize sum = 0;
  for (int64_t count : getCounts())
    sum = sum + count;
  if (!sum.isAtMost(kMaxElements))
    return emitOpError("C3: expected counts of at most ")
           << kMaxElements << " together, found " << sum.toString();
  return success();
}

LogicalResult NormalizeOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "a result", getResult(), x)) ||
      failed(expectStatistics(*this, "C2", getX(), getMean(), getRstd())) ||
      failed(expectShape(*this, "C3", "gamma", getGamma(), x.back())))
    return failure();
  return expectShape(*this, "C3", "beta", getBeta(), x.back());
}

LogicalResult NormGradSumsOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "dy", getDy(), x)) ||
      failed(expectShape(*this, "C2", "sums", getSums(),
                         append(x.drop_back(), 2))) ||
      failed(expectStatistics(*this, "C3", getX(), getMean(), getRstd())))
    return failure();
  return expectShape(*this, "C3", "gamma", getGamma(), x.back());
}

LogicalResult NormGradApplyOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "dy", getDy(), x)) ||
      failed(expectShape(*this, "C1", "dx", getDx(), x)) ||
      (getResidual() &&
       failed(expectShape(*this, "C1", "residual", getResidual(), x))) ||
      failed(expectShape(*this, "C2", "sums", getSums(),
                         append(x.drop_back(), 2))) ||
      failed(expectStatistics(*this, "C3", getX(), getMean(), getRstd())))
    return failure();
  return expectShape(*this, "C3", "gamma", getGamma(), x.back());
}

LogicalResult NormParamGradOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "dy", getDy(), x)) ||
      failed(expectStatistics(*this, "C2", getX(), getMean(), getRstd())) ||
      failed(expectShape(*this, "C3", "dgamma", getDgamma(), x.back())))
    return failure();
  return expectShape(*this, "C3", "dbeta", getDbeta(), x.back());
}

LogicalResult RmsNormOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "a result", getResult(), x)) ||
      failed(expectShape(*this, "C2", "rstd", getRstd(), x.drop_back())))
    return failure();
  return expectShape(*this, "C3", "gamma", getGamma(), x.back());
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "dy", getDy(), x)) ||
      failed(expectShape(*this, "C1", "dx", getDx(), x)) ||
      (getResidual() &&
       failed(expectShape(*this, "C1", "residual", getResidual(), x))) ||
      failed(expectShape(*this, "C2", "rstd", getRstd(), x.drop_back())) ||
      (getSums() &&
       failed(expectShape(*this, "C2", "sums", getSums(), x.drop_back()))) ||
      failed(expectShape(*this, "C3", "gamma", getGamma(), x.back())) ||
      failed(expectShape(*this, "C3", "dgamma", getDgamma(), x.back())))
    return failure();
  if (static_cast<bool>(getSums()) != getSize().has_value())
    return emitOpError("C4: expected sums and size together, found ")
           << (getSums() ? "sums" : "size") << " alone";
  return success();
}

LogicalResult RowDotOp::verify() {
  if (failed(expectRow(*this, getA())))
    return failure();
  ArrayRef<int64_t> a = shapeOf(getA());
  if (failed(expectShape(*this, "C1", "b", getB(), a)) ||
      failed(expectShape(*this, "C2", "a result", getResult(), a.drop_back())))
    return failure();
  if (!getWeight())
    return success();
  return expectShape(*this, "C3", "weight", getWeight(), a.back());
}

LogicalResult RmsRstdOp::verify() { return success(); }

LogicalResult RmsScaleOp::verify() {
  if (failed(expectRow(*this, getX())))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(expectShape(*this, "C1", "a result", getResult(), x)) ||
      failed(expectShape(*this, "C2", "rstd", getRstd(), x.drop_back())))
    return failure();
  return expectShape(*this, "C3", "gamma", getGamma(), x.back());
}

//===----------------------------------------------------------------------===//
// Sharding rules
//===----------------------------------------------------------------------===//

/// A rule of rows: `spec` with R standing for the leading dimensions of x and
/// n for its last one.
static ShardingRule
rowRule(Operation *op, Value x, StringRef spec,
        ArrayRef<std::pair<char, FactorKind>> kinds,
        ArrayRef<std::pair<char, DimensionClass>> dimensions = {}) {
  std::string rows = letters(rankOf(x) - 1, 'A');
  std::string expanded;
  for (char c : spec)
    expanded += c == 'R' ? rows : std::string(1, c);
  return ShardingRule::fromEinsum(op, expanded, kinds, dimensions);
}

ShardingRule LayerNormOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,n,n->Rn,R,R", {{'n', FactorKind::Reduced}},
                 {{'n', DimensionClass::Hidden}});
}

ShardingRule LayerNormGradOp::getShardingRule() {
  return rowRule(*this, getX(),
                 getResidual() ? "Rn,Rn,R,R,n,Rn->Rn,n,n"
                               : "Rn,Rn,R,R,n->Rn,n,n",
                 {{'n', FactorKind::Reduced}});
}

ShardingRule RowMomentsOp::getShardingRule() {
  ShardingRule rule =
      rowRule(*this, getX(), "Rn->Rp",
              {{'n', FactorKind::Reduced}, {'p', FactorKind::Whole}});
  // Moments are made of a part of a row, whatever is beside it.
  for (int64_t factor : {rule.operands[0].back(), rule.results[0].back()})
    rule.factors[factor].standsAlone = true;
  return rule;
}

ShardingRule MergeMomentsOp::getShardingRule() {
  return rowRule(*this, getMoments(), "Rn->R,R", {{'n', FactorKind::Whole}});
}
ShardingRule NormalizeOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,R,R,n,n->Rn", {});
}

ShardingRule NormGradSumsOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,Rn,R,R,n->Rp",
                 {{'n', FactorKind::Contracted}, {'p', FactorKind::Whole}});
}

ShardingRule NormGradApplyOp::getShardingRule() {
  return rowRule(*this, getX(),
                 getResidual() ? "Rn,Rn,R,R,n,Rp,Rn->Rn" : "Rn,Rn,R,R,n,Rp->Rn",
                 {{'p', FactorKind::Whole}});
}

ShardingRule NormParamGradOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, getX(), "Rn,Rn,R,R->n,n", {});
  int64_t last = rule.results[0][0];
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (static_cast<int64_t>(index) != last)
      factor.kind = FactorKind::Contracted;
  return rule;
}

ShardingRule RmsNormOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,n->Rn,R", {{'n', FactorKind::Reduced}},
                 {{'n', DimensionClass::Hidden}});
}

ShardingRule RmsNormGradOp::getShardingRule() {
  // With sums of whole rows nothing is left to be reduced.
  std::string spec = "Rn,Rn,R,n";
  if (getSums())
    spec += ",R";
  if (getResidual())
    spec += ",Rn";
  FactorKind row = getSums() ? FactorKind::Parallel : FactorKind::Reduced;
  return rowRule(*this, getX(), spec + "->Rn,n", {{'n', row}});
}

ShardingRule RowDotOp::getShardingRule() {
  return rowRule(*this, getA(), getWeight() ? "Rn,Rn,n->R" : "Rn,Rn->R",
                 {{'n', FactorKind::Contracted}});
}

ShardingRule RmsRstdOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule RmsScaleOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,R,n->Rn", {});
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"mean", "rstd"}, 1)))
    return failure();
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  // What reaches x around the normalisation is added in the same pass over x.
  Value residual = gradients.take(getX());
  auto grad = LayerNormGradOp::create(builder, getLoc(), dy, getX(), getMean(),
                                      getRstd(), getGamma(), residual);
  gradients.add(getX(), grad.getDx());
  gradients.add(getGamma(), grad.getDgamma());
  gradients.add(getBeta(), grad.getDbeta());
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder,
                                       ArrayRef<Value> resultGradients,
                                       GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"rstd"}, 1)))
    return failure();
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  // What reaches x around the normalisation is added in the same pass over x.
  Value residual = gradients.take(getX());
  auto grad = RmsNormGradOp::create(builder, getLoc(), dy, getX(), getRstd(),
                                    getGamma(), /*sums=*/Value(), residual,
                                    /*size=*/IntegerAttr());
  gradients.add(getX(), grad.getDx());
  gradients.add(getGamma(), grad.getDgamma());
  return success();
}
