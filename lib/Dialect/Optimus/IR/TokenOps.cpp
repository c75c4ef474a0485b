//===- TokenOps.cpp - Lengths of sequences, rows of tables ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operands.h"
#include "ShapeChecks.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

/// "[2, 3] and [3]".
static std::string shapesOf(Value a, Value b) {
  return toString(shapeOf(a)) + " and " + toString(shapeOf(b));
}

//===----------------------------------------------------------------------===//
// Lengths
//===----------------------------------------------------------------------===//

LogicalResult LengthsOp::verify() {
  ArrayRef<int64_t> tokens = shapeOf(getTokens());
  if (tokens.size() != 2 || shapeOf(getResult()) != tokens.take_front(1))
    return emitOpError(
               "C1: expected tokens of shape [b, s] and a result [b], found ")
           << shapesOf(getTokens(), getResult());
  if (getTargets() && shapeOf(getTargets()) != tokens)
    return emitOpError("C2: expected tokens and targets of one shape, found ")
           << shapesOf(getTokens(), getTargets());
  return success();
}

ShardingRule LengthsOp::getShardingRule() {
  ShardingRule rule = ShardingRule::fromEinsum(
      *this, getTargets() ? "bs,bs->b" : "bs->b", {{'s', FactorKind::Whole}});
  rule.factors[1].takesPadding = true;
  return rule;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// C1 and C2 of `optimus.row`.
static LogicalResult verifyRow(Operation *op, Value table, Value row,
                               int64_t index) {
  ArrayRef<int64_t> shape = shapeOf(table);
  if (shape.size() != 2 || shapeOf(row) != shape.take_back(1))
    return op->emitOpError(
               "C1: expected a table of shape [v, h] and a row [h], found ")
           << shapesOf(table, row);
  if (index < 0 || index >= shape[0])
    return op->emitOpError("C2: expected an index from 0 to ")
           << shape[0] - 1 << ", found " << index;
  return success();
}

LogicalResult RowOp::verify() {
  return verifyRow(*this, getTable(), getResult(), getIndexAttr().getInt());
}
LogicalResult RowGradOp::verify() {
  return verifyRow(*this, getResult(), getDy(), getIndexAttr().getInt());
}

ShardingRule RowOp::getShardingRule() {
  return ShardingRule::fromEinsum(*this, "vh->h", {{'v', FactorKind::Whole}});
}
ShardingRule RowGradOp::getShardingRule() {
  return ShardingRule::fromEinsum(*this, "h->vh", {{'v', FactorKind::Whole}});
}

LogicalResult RowOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> resultGradients,
                                   GradientAccumulator &gradients) {
  if (Value dy = resultGradients[0])
    gradients.add(getTable(),
                  RowGradOp::create(builder, getLoc(), getTable().getType(), dy,
                                    getIndexAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

// A look-up adds nothing but zeros.
double EmbeddingOp::countRoundings(unsigned result) { return 0; }

Contribution EmbeddingGradOp::getContribution(OpOperand &operand) {
  return isOneOf(operand, getAccumulateMutable()) ? Contribution::Linear
                                                  : Contribution::Factor;
}
