//===- Products.cpp - Products on one rank's parts --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"
#include "MatrixProduct.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

/// The elements of a matrix, row-major.
static std::vector<double> pack(const MatrixView &matrix) {
  if (!matrix.transposed)
    return matrix.tensor.elements;
  std::vector<double> packed;
  packed.reserve(matrix.rows * matrix.cols);
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t col = 0; col < matrix.cols; ++col)
      packed.push_back(matrix.at(row, col));
  return packed;
}

void mlir::optimus::addProduct(const MatrixView &a, const MatrixView &b,
                               Tensor &result) {
  // Row by row through b and the result, which is several times faster than
  // element by element where b is transposed.
  std::vector<double> left = pack(a), right = pack(b);
  for (int64_t m = 0; m < a.rows; ++m)
    for (int64_t k = 0; k < a.cols; ++k)
      for (int64_t n = 0; n < b.cols; ++n)
        result[m * b.cols + n] += left[m * a.cols + k] * right[k * b.cols + n];
}

int64_t
mlir::optimus::findContributingPadding(const MatrixView &a, const MatrixView &b,
                                       const std::vector<bool> &padding) {
  for (int64_t k = 0; k < a.cols; ++k) {
    if (!padding[k])
      continue;
    bool zeroA = true, zeroB = true, finite = true;
    for (int64_t m = 0; m < a.rows; ++m) {
      zeroA &= a.at(m, k) == 0;
      finite &= std::isfinite(a.at(m, k));
    }
    for (int64_t n = 0; n < b.cols; ++n) {
      zeroB &= b.at(k, n) == 0;
      finite &= std::isfinite(b.at(k, n));
    }
    if (!finite || (!zeroA && !zeroB))
      return k;
  }
  return -1;
}

static int64_t getExtent(const Tensor &tensor, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t dim : dims)
    extent *= tensor.shape[dim];
  return extent;
}

namespace {
LogicalResult executeLocally(MatmulOp op, Frame &frame) {
  const Tensor &a = frame.get(op.getA()), &b = frame.get(op.getB());
  Tensor &result = frame.result(op.getResult());
  int64_t numM = getExtent(a, op.getMDimsOfA());
  int64_t numK = getExtent(a, op.getKDimsOfA());
  int64_t numN = getExtent(b, op.getNDimsOfB());
  MatrixView left{a, numM, numK, op.getTransposeA()};
  MatrixView right{b, numK, numN, op.getTransposeB()};

  SmallVector<int64_t> dims = op.getKDimsOfA();
  std::vector<bool> padding =
      frame.getPadding(op.getA(), dims.front(), dims.back() + 1);
  int64_t bad = findContributingPadding(left, right, padding);
  if (bad >= 0)
    return frame.emitError()
           << "contracts over padding that is not zero in either operand, "
              "at contracted index "
           << bad;

  addProduct(left, right, result);
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (op.getBias())
      result[i] += frame.get(op.getBias())[i % numN];
    if (op.getResidual())
      result[i] += frame.get(op.getResidual())[i];
    if (op.getScale())
      result[i] *= frame.get(op.getScale())[i];
  }
  return success();
}
} // namespace

void mlir::optimus::attachProducts(MLIRContext &context) {
  LocalModel<MatmulOp, executeLocally>::attach(context);
}
