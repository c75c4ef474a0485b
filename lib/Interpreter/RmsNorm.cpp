//===- RmsNorm.cpp - Normalisation by the root mean square ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums over a row may include padding, which must then add nothing: it is
// exactly zero in x. They are divided by the true extent.
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Σ a·b·weight of one row, where `real` elements of it are not padding; weight
/// may be null. Fails where padding adds to the sum.
FailureOr<double> getRowDot(Frame &frame, const Tensor &a, const Tensor &b,
                            const Tensor *weight, int64_t row, int64_t real) {
  int64_t cols = a.getNumCols();
  double sum = 0;
  for (int64_t col = 0; col < cols; ++col) {
    double term = a[row * cols + col] * b[row * cols + col];
    if (weight)
      term *= (*weight)[col];
    if (col >= real && term != 0)
      return frame.emitError()
             << "sums over padding that adds " << term << ", in row " << row
             << ", column " << col << "; expected exactly 0";
    sum += term;
  }
  return sum;
}

void scaleRow(const Tensor &x, double rstd, const Tensor &gamma, int64_t row,
              Tensor &result) {
  int64_t cols = x.getNumCols();
  for (int64_t col = 0; col < cols; ++col)
    result[row * cols + col] = x[row * cols + col] * rstd * gamma[col];
}

struct RmsNormModel : LocalModel<RmsNormModel, RmsNormOp> {
  static LogicalResult run(RmsNormOp op, Frame &frame) {
    const Tensor &x = frame.get(op.getX());
    Tensor &rstd = frame.result(op.getRstd());
    int64_t real = frame.getLastExtent(op.getX()).real;
    for (int64_t row = 0; row < x.getNumRows(); ++row) {
      FailureOr<double> squares = getRowDot(frame, x, x, nullptr, row, real);
      if (failed(squares))
        return failure();
      rstd[row] =
          1 / std::sqrt(*squares / real + op.getEpsilon().convertToDouble());
      scaleRow(x, rstd[row], frame.get(op.getGamma()), row,
               frame.result(op.getResult()));
    }
    return success();
  }
};

struct RmsNormGradModel : LocalModel<RmsNormGradModel, RmsNormGradOp> {
  static LogicalResult run(RmsNormGradOp op, Frame &frame) {
    const Tensor &dy = frame.get(op.getDy()), &x = frame.get(op.getX());
    const Tensor &rstd = frame.get(op.getRstd());
    const Tensor &gamma = frame.get(op.getGamma());
    Tensor &dx = frame.result(op.getDx());
    Tensor &dgamma = frame.result(op.getDgamma());
    int64_t real = frame.getLastExtent(op.getX()).real, cols = x.getNumCols();
    std::vector<bool> padding =
        frame.getPadding(op.getDy(), 0, dy.shape.size() - 1);
    for (int64_t row = 0; row < x.getNumRows(); ++row) {
      FailureOr<double> sum = 0.0;
      if (op.getSums())
        sum = frame.get(op.getSums())[row];
      else
        sum = getRowDot(frame, dy, x, &gamma, row, real);
      if (failed(sum))
        return failure();
      double size = op.getSize().value_or(real), r = rstd[row];
      for (int64_t col = 0; col < cols; ++col) {
        int64_t at = row * cols + col;
        if (padding[row] && dy[at] != 0)
          return frame.emitError()
                 << "sums over a padded row of dy, row " << row
                 << ", that holds " << dy[at] << "; expected exactly 0";
        dx[at] = r * dy[at] * gamma[col] - x[at] * r * r * r * *sum / size;
        if (op.getResidual())
          dx[at] += frame.get(op.getResidual())[at];
        dgamma[col] += dy[at] * x[at] * r;
      }
    }
    return success();
  }
};

struct RowDotModel : LocalModel<RowDotModel, RowDotOp> {
  static LogicalResult run(RowDotOp op, Frame &frame) {
    const Tensor &a = frame.get(op.getA()), &b = frame.get(op.getB());
    const Tensor *weight =
        op.getWeight() ? &frame.get(op.getWeight()) : nullptr;
    Tensor &result = frame.result(op.getResult());
    int64_t real = frame.getLastExtent(op.getA()).real;
    for (int64_t row = 0; row < a.getNumRows(); ++row) {
      FailureOr<double> sum = getRowDot(frame, a, b, weight, row, real);
      if (failed(sum))
        return failure();
      result[row] = *sum;
    }
    return success();
  }
};

struct RmsRstdModel : LocalModel<RmsRstdModel, RmsRstdOp> {
  static LogicalResult run(RmsRstdOp op, Frame &frame) {
    const Tensor &squares = frame.get(op.getSquares());
    Tensor &rstd = frame.result(op.getRstd());
    for (int64_t row = 0; row < squares.getNumElements(); ++row)
      rstd[row] = 1 / std::sqrt(squares[row] / op.getSize() +
                                op.getEpsilon().convertToDouble());
    return success();
  }
};

struct RmsScaleModel : LocalModel<RmsScaleModel, RmsScaleOp> {
  static LogicalResult run(RmsScaleOp op, Frame &frame) {
    const Tensor &x = frame.get(op.getX());
    for (int64_t row = 0; row < x.getNumRows(); ++row)
      scaleRow(x, frame.get(op.getRstd())[row], frame.get(op.getGamma()), row,
               frame.result(op.getResult()));
    return success();
  }
};

} // namespace

void mlir::optimus::attachRmsNorm(MLIRContext &context) {
  RmsNormOp::attachInterface<RmsNormModel>(context);
  RmsNormGradOp::attachInterface<RmsNormGradModel>(context);
  RowDotOp::attachInterface<RowDotModel>(context);
  RmsRstdOp::attachInterface<RmsRstdModel>(context);
  RmsScaleOp::attachInterface<RmsScaleModel>(context);
}
