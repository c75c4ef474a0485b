//===- Embedding.cpp - Look-up in a table and its gradient ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/Interpreter.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The local row of a token in a table of `total` rows in all; -1 where another
/// rank has it, and where there is no token. Fails beyond the table.
FailureOr<int64_t> findRow(Frame &frame, double token, Extent rows,
                           int64_t total) {
  if (token < 0)
    return -1;
  if (token >= total)
    return frame.emitError()
           << "expected tokens in [0, " << total
           << "), the rows of the table; found " << static_cast<int64_t>(token);
  int64_t row = static_cast<int64_t>(token) - rows.offset;
  return row >= 0 && row < rows.real ? row : -1;
}

LogicalResult executeLocally(EmbeddingOp op, Frame &frame) {
  const Tensor &table = frame.get(op.getTable());
  const Tensor &tokens = frame.get(op.getTokens());
  Tensor &result = frame.result(op.getResult());
  int64_t cols = table.getNumCols();
  int64_t total = getWholeShape(op.getTable().getType())[0];
  for (int64_t i = 0; i < tokens.getNumElements(); ++i) {
    FailureOr<int64_t> row =
        findRow(frame, tokens[i], frame.getExtent(op.getTable(), 0), total);
    if (failed(row))
      return failure();
    if (*row >= 0)
      std::copy_n(table.elements.begin() + *row * cols, cols,
                  result.elements.begin() + i * cols);
  }
  return success();
}

LogicalResult executeLocally(EmbeddingGradOp op, Frame &frame) {
  const Tensor &dy = frame.get(op.getDy());
  const Tensor &tokens = frame.get(op.getTokens());
  Tensor &result = frame.result(op.getResult());
  if (op.getAccumulate())
    result = frame.get(op.getAccumulate());
  int64_t cols = result.getNumCols();
  int64_t total = getWholeShape(op.getResult().getType())[0];
  std::vector<bool> padding =
      frame.getPadding(op.getTokens(), 0, tokens.shape.size());
  for (int64_t i = 0; i < tokens.getNumElements(); ++i) {
    FailureOr<int64_t> row =
        findRow(frame, tokens[i], frame.getExtent(op.getResult(), 0), total);
    if (failed(row))
      return failure();
    bool isPad = op.getPad() && tokens[i] == double(*op.getPad());
    for (int64_t col = 0; col < cols; ++col) {
      double x = dy[i * cols + col];
      if (padding[i] && x != 0)
        return frame.emitError()
               << "adds a padded row of dy, row " << i << ", that holds " << x
               << "; expected exactly 0";
      if (*row >= 0 && !isPad)
        result[*row * cols + col] += x;
    }
  }
  return success();
}

} // namespace

void mlir::optimus::attachEmbedding(MLIRContext &context) {
  LocalModel<EmbeddingOp, executeLocally>::attach(context);
  LocalModel<EmbeddingGradOp, executeLocally>::attach(context);
}
