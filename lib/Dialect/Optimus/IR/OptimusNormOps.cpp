//===- OptimusNormOps.cpp - Normalisation -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

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
