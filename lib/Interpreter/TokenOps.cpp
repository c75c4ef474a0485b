//===- TokenOps.cpp - Lengths of sequences, rows of tables ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

LogicalResult executeLocally(LengthsOp op, Frame &frame) {
  const Tensor &tokens = frame.get(op.getTokens());
  const Tensor *targets =
      op.getTargets() ? &frame.get(op.getTargets()) : nullptr;
  Tensor &result = frame.result(op.getResult());
  int64_t real = frame.getLastExtent(op.getTokens()).real;
  for (int64_t row = 0; row < tokens.getNumRows(); ++row) {
    result[row] = 1;
    for (int64_t i = 0; i < real; ++i) {
      int64_t at = row * tokens.getNumCols() + i;
      if (tokens[at] != static_cast<double>(op.getPadAttr().getInt()) ||
          (targets && (*targets)[at] >= 0))
        result[row] = i + 1;
    }
  }
  return success();
}

LogicalResult executeLocally(RowOp op, Frame &frame) {
  const Tensor &table = frame.get(op.getTable());
  Tensor &result = frame.result(op.getResult());
  int64_t cols = table.getNumCols();
  for (int64_t i = 0; i < cols; ++i)
    result[i] = table[op.getIndex() * cols + i];
  return success();
}

LogicalResult executeLocally(RowGradOp op, Frame &frame) {
  const Tensor &dy = frame.get(op.getDy());
  Tensor &result = frame.result(op.getResult());
  int64_t cols = dy.getNumCols();
  for (int64_t i = 0; i < cols; ++i)
    result[op.getIndex() * cols + i] = dy[i];
  return success();
}

} // namespace

void mlir::optimus::attachTokenOps(MLIRContext &context) {
  LocalModel<LengthsOp, executeLocally>::attach(context);
  LocalModel<RowOp, executeLocally>::attach(context);
  LocalModel<RowGradOp, executeLocally>::attach(context);
}
