//===- Norms.cpp - Layer normalisation and its parts ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums over a row are over its real elements, and what is written to padded
// elements is zero, whether the row is whole or sharded.
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The mean of a row's real elements and the sum of their squared deviations
/// from it.
struct Moments {
  double mean = 0, m2 = 0;

  Moments() = default;
  Moments(const Tensor &x, int64_t begin, int64_t real) {
    for (int64_t i = 0; i < real; ++i)
      mean += x[begin + i];
    mean /= std::max<int64_t>(real, 1);
    for (int64_t i = 0; i < real; ++i)
      m2 += (x[begin + i] - mean) * (x[begin + i] - mean);
  }
};

/// dŷ and x̂ of the elements of rows, for the operations that begin with
/// (dy, x, mean, rstd, gamma).
template <typename Op>
struct NormRows {
  NormRows(Op op, Frame &frame)
      : dy(frame.get(op.getDy())), x(frame.get(op.getX())),
        mean(frame.get(op.getMean())), rstd(frame.get(op.getRstd())),
        cols(x.getNumCols()), rows(x.getNumRows()) {}

  double getXHat(int64_t row, int64_t col) const {
    return (x[row * cols + col] - mean[row]) * rstd[row];
  }

  const Tensor &dy, &x, &mean, &rstd;
  int64_t cols, rows;
};

/// (Σdŷ, Σdŷ·x̂) of one row. Fails where padding adds to them.
template <typename Op>
FailureOr<std::pair<double, double>>
getRowSums(Op op, Frame &frame, const NormRows<Op> &norm, int64_t row) {
  const Tensor &gamma = frame.get(op.getGamma());
  int64_t real = frame.getLastExtent(op.getX()).real;
  double sum = 0, sumXHat = 0;
  for (int64_t col = 0; col < norm.cols; ++col) {
    double d = norm.dy[row * norm.cols + col] * gamma[col];
    if (col >= real && d != 0)
      return frame.emitError()
             << "sums over padding where dy * gamma is " << d << ", in row "
             << row << ", column " << col << "; expected exactly 0";
    sum += d;
    sumXHat += d * norm.getXHat(row, col);
  }
  return std::make_pair(sum, sumXHat);
}

/// Writes dx of one row from its sums, over `size` real elements of the whole
/// row.
template <typename Op>
void applyRow(Op op, Frame &frame, const NormRows<Op> &norm, int64_t row,
              std::pair<double, double> sums, int64_t size) {
  const Tensor &gamma = frame.get(op.getGamma());
  Tensor &dx = frame.result(op.getDx());
  int64_t real = frame.getLastExtent(op.getX()).real;
  for (int64_t col = 0; col < real; ++col) {
    int64_t at = row * norm.cols + col;
    double d = norm.dy[at] * gamma[col];
    dx[at] = norm.rstd[row] * (d - sums.first / size -
                               norm.getXHat(row, col) * sums.second / size);
    if (op.getResidual())
      dx[at] += frame.get(op.getResidual())[at];
  }
}

/// dgamma and dbeta: sums over rows, to which padded rows must add nothing.
template <typename Op>
LogicalResult sumParamGrads(Op op, Frame &frame, const NormRows<Op> &norm) {
  Tensor &dgamma = frame.result(op.getDgamma());
  Tensor &dbeta = frame.result(op.getDbeta());
  std::vector<bool> padding =
      frame.getPadding(op.getDy(), 0, norm.dy.shape.size() - 1);
  for (int64_t row = 0; row < norm.rows; ++row)
    for (int64_t col = 0; col < norm.cols; ++col) {
      double dy = norm.dy[row * norm.cols + col];
      if (padding[row] && dy != 0)
        return frame.emitError()
               << "sums over a padded row of dy, row " << row << ", that holds "
               << dy << "; expected exactly 0";
      dgamma[col] += dy * norm.getXHat(row, col);
      dbeta[col] += dy;
    }
  return success();
}

void normalizeRow(const Tensor &x, double mean, double rstd,
                  const Tensor &gamma, const Tensor &beta, int64_t row,
                  Tensor &result) {
  int64_t cols = x.getNumCols();
  for (int64_t col = 0; col < cols; ++col) {
    int64_t at = row * cols + col;
    result[at] = (x[at] - mean) * rstd * gamma[col] + beta[col];
  }
}

struct LayerNormModel : LocalModel<LayerNormModel, LayerNormOp> {
  static LogicalResult run(LayerNormOp op, Frame &frame) {
    const Tensor &x = frame.get(op.getX());
    Tensor &mean = frame.result(op.getMean());
    Tensor &rstd = frame.result(op.getRstd());
    int64_t real = frame.getLastExtent(op.getX()).real;
    for (int64_t row = 0; row < x.getNumRows(); ++row) {
      Moments moments(x, row * x.getNumCols(), real);
      mean[row] = moments.mean;
      rstd[row] =
          1 / std::sqrt(moments.m2 / real + op.getEpsilon().convertToDouble());
      normalizeRow(x, mean[row], rstd[row], frame.get(op.getGamma()),
                   frame.get(op.getBeta()), row, frame.result(op.getResult()));
    }
    return success();
  }
};

struct LayerNormGradModel : LocalModel<LayerNormGradModel, LayerNormGradOp> {
  static LogicalResult run(LayerNormGradOp op, Frame &frame) {
    NormRows norm(op, frame);
    int64_t size = frame.getLastExtent(op.getX()).real;
    for (int64_t row = 0; row < norm.rows; ++row) {
      auto sums = getRowSums(op, frame, norm, row);
      if (failed(sums))
        return failure();
      applyRow(op, frame, norm, row, *sums, size);
    }
    return sumParamGrads(op, frame, norm);
  }
};

struct RowMomentsModel : LocalModel<RowMomentsModel, RowMomentsOp> {
  static constexpr bool kHasMeaning = false;

  static LogicalResult run(RowMomentsOp op, Frame &frame) {
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
};

struct MergeMomentsModel : LocalModel<MergeMomentsModel, MergeMomentsOp> {
  static constexpr bool kHasMeaning = false;

  static LogicalResult run(MergeMomentsOp op, Frame &frame) {
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
      rstd[row] = 1 / std::sqrt(m2 / total + op.getEpsilon().convertToDouble());
    }
    return success();
  }
};

struct NormalizeModel : LocalModel<NormalizeModel, NormalizeOp> {
  static LogicalResult run(NormalizeOp op, Frame &frame) {
    const Tensor &x = frame.get(op.getX());
    for (int64_t row = 0; row < x.getNumRows(); ++row)
      normalizeRow(x, frame.get(op.getMean())[row],
                   frame.get(op.getRstd())[row], frame.get(op.getGamma()),
                   frame.get(op.getBeta()), row, frame.result(op.getResult()));
    return success();
  }
};

struct NormGradSumsModel : LocalModel<NormGradSumsModel, NormGradSumsOp> {
  static LogicalResult run(NormGradSumsOp op, Frame &frame) {
    NormRows norm(op, frame);
    Tensor &result = frame.result(op.getSums());
    for (int64_t row = 0; row < norm.rows; ++row) {
      auto sums = getRowSums(op, frame, norm, row);
      if (failed(sums))
        return failure();
      std::tie(result[2 * row], result[2 * row + 1]) = *sums;
    }
    return success();
  }
};

struct NormGradApplyModel : LocalModel<NormGradApplyModel, NormGradApplyOp> {
  static LogicalResult run(NormGradApplyOp op, Frame &frame) {
    NormRows norm(op, frame);
    const Tensor &sums = frame.get(op.getSums());
    for (int64_t row = 0; row < norm.rows; ++row)
      applyRow(op, frame, norm, row, {sums[2 * row], sums[2 * row + 1]},
               op.getSize());
    return success();
  }
};

struct NormParamGradModel : LocalModel<NormParamGradModel, NormParamGradOp> {
  static LogicalResult run(NormParamGradOp op, Frame &frame) {
    return sumParamGrads(op, frame, NormRows(op, frame));
  }
};

} // namespace

void mlir::optimus::attachNorms(MLIRContext &context) {
  LayerNormOp::attachInterface<LayerNormModel>(context);
  LayerNormGradOp::attachInterface<LayerNormGradModel>(context);
  RowMomentsOp::attachInterface<RowMomentsModel>(context);
  MergeMomentsOp::attachInterface<MergeMomentsModel>(context);
  NormalizeOp::attachInterface<NormalizeModel>(context);
  NormGradSumsOp::attachInterface<NormGradSumsModel>(context);
  NormGradApplyOp::attachInterface<NormGradApplyModel>(context);
  NormParamGradOp::attachInterface<NormParamGradModel>(context);
}
