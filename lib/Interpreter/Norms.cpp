//===- Norms.cpp - Normalisation and its parts ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LayerNorm and RMSNorm are one family: the latter takes 0 for the mean.
// Moments are of a row's real elements; other sums may include padding, which
// must add nothing, and are divided by the true extent.
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Whether an operation has a mean, which it subtracts.
template <typename Op>
constexpr bool kHasMean = requires(Op op) {
  op.getMean();
};

/// The mean of a row's real elements and the sum of their squared deviations
/// from it.
struct Moments {
  double mean = 0, m2 = 0;

  Moments(const Tensor &x, int64_t begin, int64_t real) {
    for (int64_t i = 0; i < real; ++i)
      mean += x[begin + i];
    mean /= std::max<int64_t>(real, 1);
    for (int64_t i = 0; i < real; ++i)
      m2 += (x[begin + i] - mean) * (x[begin + i] - mean);
  }
};

double getRstd(double squares, double size, const APFloat &epsilon) {
  return 1 / std::sqrt(squares / size + epsilon.convertToDouble());
}

/// Fails where a row's sum takes in padding that adds to it.
LogicalResult checkTerm(Frame &frame, double term, int64_t row, int64_t col,
                        int64_t real) {
  if (col < real || term == 0)
    return success();
  return frame.emitError() << "sums over padding that adds " << term
                           << ", in row " << row << ", column " << col
                           << "; expected exactly 0";
}

/// Σ a·b·weight of one row; weight may be null.
FailureOr<double> getRowDot(Frame &frame, const Tensor &a, const Tensor &b,
                            const Tensor *weight, int64_t row, int64_t real) {
  int64_t cols = a.getNumCols();
  double sum = 0;
  for (int64_t col = 0; col < cols; ++col) {
    double term = a[row * cols + col] * b[row * cols + col] *
                  (weight ? (*weight)[col] : 1);
    if (failed(checkTerm(frame, term, row, col, real)))
      return failure();
    sum += term;
  }
  return sum;
}

/// Rows of x and their statistics, for the operations that have them as
/// operands or results.
template <typename Op>
struct NormRows {
  NormRows(Op op, Frame &frame)
      : op(op), frame(frame), x(frame.get(op.getX())), cols(x.getNumCols()),
        rows(x.getNumRows()), real(frame.getLastExtent(op.getX()).real),
        rstd(get(op.getRstd())) {
    if constexpr (kHasMean<Op>)
      mean = &get(op.getMean());
    if constexpr (requires { op.getGamma(); })
      gamma = &get(op.getGamma());
    if constexpr (requires { op.getDy(); })
      dy = &get(op.getDy());
  }

  double getXHat(int64_t row, int64_t col) const {
    return (x[row * cols + col] - (mean ? (*mean)[row] : 0)) * rstd[row];
  }
  double getDyHat(int64_t row, int64_t col) const {
    return (*dy)[row * cols + col] * (*gamma)[col];
  }

  /// x̂·gamma + beta of a row.
  void normalize(int64_t row) {
    Tensor &result = frame.result(op.getResult());
    for (int64_t col = 0; col < cols; ++col) {
      double beta = 0;
      if constexpr (kHasMean<Op>)
        beta = frame.get(op.getBeta())[col];
      result[row * cols + col] = getXHat(row, col) * (*gamma)[col] + beta;
    }
  }

  /// (Σdŷ, Σdŷ·x̂) of a row; the first is 0 where no mean was subtracted.
  FailureOr<std::pair<double, double>> getSums(int64_t row) {
    double sum = 0, sumXHat = 0;
    for (int64_t col = 0; col < cols; ++col) {
      double d = getDyHat(row, col), dXHat = d * getXHat(row, col);
      if (failed(checkTerm(frame, mean ? d : dXHat, row, col, real)))
        return failure();
      sum += mean ? d : 0;
      sumXHat += dXHat;
    }
    return std::make_pair(sum, sumXHat);
  }

  /// dx of a row from its sums, over `size` real elements of the whole row.
  void apply(int64_t row, std::pair<double, double> sums, double size) {
    Tensor &dx = frame.result(op.getDx());
    const Tensor *residual =
        op.getResidual() ? &frame.get(op.getResidual()) : nullptr;
    for (int64_t col = 0; col < real; ++col) {
      int64_t at = row * cols + col;
      dx[at] = rstd[row] * (getDyHat(row, col) - sums.first / size -
                            getXHat(row, col) * sums.second / size);
      if (residual)
        dx[at] += (*residual)[at];
    }
  }

  /// Gradients of parameters: sums over rows, to which padded rows must add
  /// nothing.
  LogicalResult sumParameters() {
    Tensor &dgamma = frame.result(op.getDgamma()), *dbeta = nullptr;
    if constexpr (kHasMean<Op>)
      dbeta = &frame.result(op.getDbeta());
    std::vector<bool> padding =
        frame.getPadding(op.getDy(), 0, dy->shape.size() - 1);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; ++col) {
        double d = (*dy)[row * cols + col];
        if (padding[row] && d != 0)
          return frame.emitError()
                 << "sums over a padded row of dy, row " << row
                 << ", that holds " << d << "; expected exactly 0";
        dgamma[col] += d * getXHat(row, col);
        if (dbeta)
          (*dbeta)[col] += d;
      }
    return success();
  }

  /// Of an operand or a result.
  const Tensor &get(Value value) {
    return value.getDefiningOp() == op.getOperation() ? frame.result(value)
                                                      : frame.get(value);
  }

  Op op;
  Frame &frame;
  const Tensor &x;
  int64_t cols, rows, real;
  const Tensor &rstd;
  /// Of operations that have them.
  const Tensor *mean = nullptr, *gamma = nullptr, *dy = nullptr;
};

template <typename Op>
LogicalResult executeNorm(Op op, Frame &frame) {
  NormRows<Op> norm(op, frame);
  for (int64_t row = 0; row < norm.rows; ++row) {
    FailureOr<double> squares = 0.0;
    if constexpr (kHasMean<Op>) {
      Moments moments(norm.x, row * norm.cols, norm.real);
      frame.result(op.getMean())[row] = moments.mean;
      squares = moments.m2;
    } else {
      squares = getRowDot(frame, norm.x, norm.x, nullptr, row, norm.real);
    }
    if (failed(squares))
      return failure();
    frame.result(op.getRstd())[row] =
        getRstd(*squares, norm.real, op.getEpsilon());
    norm.normalize(row);
  }
  return success();
}

template <typename Op>
LogicalResult executeNormalize(Op op, Frame &frame) {
  NormRows<Op> norm(op, frame);
  for (int64_t row = 0; row < norm.rows; ++row)
    norm.normalize(row);
  return success();
}

template <typename Op>
LogicalResult executeNormGrad(Op op, Frame &frame) {
  NormRows<Op> norm(op, frame);
  for (int64_t row = 0; row < norm.rows; ++row) {
    FailureOr<std::pair<double, double>> sums = failure();
    double size = norm.real;
    if constexpr (requires { op.getSums(); })
      if (op.getSums()) {
        // Σdŷ·x, of which x̂ is rstd times x.
        sums = std::make_pair(0.0, frame.get(op.getSums())[row] *
                                       frame.get(op.getRstd())[row]);
        size = *op.getSize();
      }
    if (failed(sums))
      sums = norm.getSums(row);
    if (failed(sums))
      return failure();
    norm.apply(row, *sums, size);
  }
  return norm.sumParameters();
}

LogicalResult executeLocally(RowMomentsOp op, Frame &frame) {
  const Tensor &x = frame.get(op.getX());
  Tensor &result = frame.result(op.getMoments());
  int64_t real = frame.getLastExtent(op.getX()).real;
  for (int64_t row = 0; row < x.getNumRows(); ++row) {
    Moments moments(x, row * x.getNumCols(), real);
    result[2 * row] = moments.mean;
    result[2 * row + 1] = moments.m2;
  }
  return success();
}

LogicalResult executeLocally(MergeMomentsOp op, Frame &frame) {
  const Tensor &moments = frame.get(op.getMoments());
  Tensor &mean = frame.result(op.getMean());
  Tensor &rstd = frame.result(op.getRstd());
  for (int64_t row = 0; row < mean.getNumElements(); ++row) {
    // Chan's formula, part after part.
    double total = 0, m2 = 0;
    for (auto [part, number] : llvm::enumerate(op.getCounts())) {
      if (number == 0)
        continue;
      double count = number;
      int64_t at = row * moments.getNumCols() + 2 * part;
      double delta = moments[at] - mean[row];
      double merged = total + count;
      mean[row] += delta * count / merged;
      m2 += moments[at + 1] + delta * delta * total * count / merged;
      total = merged;
    }
    rstd[row] = getRstd(m2, total, op.getEpsilon());
  }
  return success();
}

LogicalResult executeLocally(NormGradSumsOp op, Frame &frame) {
  NormRows<NormGradSumsOp> norm(op, frame);
  Tensor &result = frame.result(op.getSums());
  for (int64_t row = 0; row < norm.rows; ++row) {
    auto sums = norm.getSums(row);
    if (failed(sums))
      return failure();
    std::tie(result[2 * row], result[2 * row + 1]) = *sums;
  }
  return success();
}

LogicalResult executeLocally(NormGradApplyOp op, Frame &frame) {
  NormRows<NormGradApplyOp> norm(op, frame);
  const Tensor &sums = frame.get(op.getSums());
  for (int64_t row = 0; row < norm.rows; ++row)
    norm.apply(row, {sums[2 * row], sums[2 * row + 1]}, op.getSize());
  return success();
}

LogicalResult executeLocally(NormParamGradOp op, Frame &frame) {
  return NormRows<NormParamGradOp>(op, frame).sumParameters();
}

LogicalResult executeLocally(RowDotOp op, Frame &frame) {
  const Tensor &a = frame.get(op.getA()), &b = frame.get(op.getB());
  const Tensor *weight = op.getWeight() ? &frame.get(op.getWeight()) : nullptr;
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

LogicalResult executeLocally(RmsRstdOp op, Frame &frame) {
  const Tensor &squares = frame.get(op.getSquares());
  Tensor &rstd = frame.result(op.getRstd());
  for (int64_t row = 0; row < squares.getNumElements(); ++row)
    rstd[row] = getRstd(squares[row], op.getSize(), op.getEpsilon());
  return success();
}

} // namespace

void mlir::optimus::attachNorms(MLIRContext &context) {
  LocalModel<LayerNormOp, executeNorm<LayerNormOp>>::attach(context);
  LocalModel<RmsNormOp, executeNorm<RmsNormOp>>::attach(context);
  LocalModel<LayerNormGradOp, executeNormGrad<LayerNormGradOp>>::attach(
      context);
  LocalModel<RmsNormGradOp, executeNormGrad<RmsNormGradOp>>::attach(context);
  LocalModel<NormalizeOp, executeNormalize<NormalizeOp>>::attach(context);
  LocalModel<RmsScaleOp, executeNormalize<RmsScaleOp>>::attach(context);
  LocalModel<RowMomentsOp, executeLocally,
             /*hasSerialSemantics=*/false>::attach(context);
  LocalModel<MergeMomentsOp, executeLocally,
             /*hasSerialSemantics=*/false>::attach(context);
  LocalModel<RowDotOp, executeLocally>::attach(context);
  LocalModel<RmsRstdOp, executeLocally>::attach(context);
  LocalModel<NormGradSumsOp, executeLocally>::attach(context);
  LocalModel<NormGradApplyOp, executeLocally>::attach(context);
  LocalModel<NormParamGradOp, executeLocally>::attach(context);
}
