//===- MatrixProduct.h - Products of whole matrices -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_MATRIXPRODUCT_H
#define OPTIMUS_LIB_INTERPRETER_MATRIXPRODUCT_H

#include "optimus/Interpreter/Tensor.h"

namespace mlir::optimus {

/// A tensor as a matrix: its memory is [rows, cols], or [cols, rows] where it
/// is transposed.
struct MatrixView {
  const Tensor &tensor;
  int64_t rows, cols;
  bool transposed;

  double at(int64_t row, int64_t col) const {
    return transposed ? tensor[col * rows + row] : tensor[row * cols + col];
  }
};

/// Adds a·b to result, [a.rows, b.cols]; sums run over k upwards.
void addProduct(const MatrixView &a, const MatrixView &b, Tensor &result);

/// The first k for which the padding mask is set and yet column k of a and row
/// k of b both hold something other than zero, or one of them is not finite;
/// -1 if padding contributes nothing.
int64_t findContributingPadding(const MatrixView &a, const MatrixView &b,
                                const std::vector<bool> &padding);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_INTERPRETER_MATRIXPRODUCT_H
