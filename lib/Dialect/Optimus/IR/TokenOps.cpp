//===- TokenOps.cpp - Lengths, rows, embeddings -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Einsums.h"
#include "Gradients.h"
#include "Operands.h"
#include "ShapeChecks.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

using namespace mlir;
using namespace mlir::optimus;

/// "[2, 3] and [3]".
static std::string shapesOf(Value a, Value b) {
  return toString(shapeOf(a)) + " and " + toString(shapeOf(b));
}

//===----------------------------------------------------------------------===//
// Lengths
//===----------------------------------------------------------------------===//

void EmbeddingOp::stateFacts(ModelFacts &facts) {
  if (IntegerAttr pad = getPadAttr())
    facts.decide("pad_token", pad);
}

/// The table itself is what positions look up, but for their places, however
/// these are moved between ranks.
Value EmbeddingOp::getStandIn() {
  Value chosen = getTokens();
  while (Operation *moving = chosen.getDefiningOp()) {
    if (moving->getNumOperands() != 1)
      return {};
    chosen = moving->getOperand(0);
  }
  auto argument = cast<BlockArgument>(chosen);
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  BufferAttr buffer = function
                          ? getArgumentBuffer(function, argument.getArgNumber())
                          : BufferAttr();
  return buffer && isOfPositions(buffer.getRole()) ? getTable() : Value();
}

void LengthsOp::stateFacts(ModelFacts &facts) {
  facts.decide("pad_token", int64_t(getPad()));
}

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
      *this, getTargets() ? "bs,bs->b" : "bs->b", {{'s', FactorKind::Whole}},
      {{'b', DimensionClass::Batch}, {'s', DimensionClass::Sequence}});
  rule.factors[1].allowsPadding = true;
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
  gradients.add(getTable(),
                RowGradOp::create(builder, getLoc(), getTable().getType(),
                                  resultGradients[0], getIndexAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// A part of a table says nothing about how many rows the whole has.
static LogicalResult verifyPad(Operation *op, StringRef constraint,
                               std::optional<uint64_t> pad, Value table) {
  auto type = cast<RankedTensorType>(table.getType());
  auto row = static_cast<int64_t>(pad.value_or(0));
  bool isWhole = !type.getEncoding();
  if (!pad || (row >= 0 && (!isWhole || row < type.getDimSize(0))))
    return success();
  return op->emitOpError() << constraint
                           << ": expected pad to be one of the table's "
                           << type.getDimSize(0) << " rows, found " << row;
}

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (table.size() != 2)
    return emitOpError("C1: expected a table of rank 2, found ")
           << toString(table);
  if (failed(expectShape(*this, "C2", "a result", getResult(),
                         append(shapeOf(getTokens()), table[1]))))
    return failure();
  return verifyPad(*this, "C3", getPad(), getTable());
}

LogicalResult EmbeddingGradOp::verify() {
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (result.size() != 2)
    return emitOpError("C2: expected a result of rank 2, found ")
           << toString(result);
  if (failed(expectShape(*this, "C1", "dy", getDy(),
                         append(shapeOf(getTokens()), result[1]))))
    return failure();
  if (getAccumulate() &&
      failed(expectShape(*this, "C3", "accumulate", getAccumulate(), result)))
    return failure();
  return verifyPad(*this, "C4", getPad(), getResult());
}

ShardingRule EmbeddingOp::getShardingRule() {
  std::string rows = letters(rankOf(getTokens()), 'A');
  return ShardingRule::fromEinsum(*this, "vh," + rows + "->" + rows + "h",
                                  {{'v', FactorKind::Contracted}},
                                  kTableDimensions);
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  std::string rows = letters(rankOf(getTokens()), 'A');
  SmallVector<std::pair<char, FactorKind>> kinds;
  for (char letter : rows)
    kinds.push_back({letter, FactorKind::Contracted});
  return ShardingRule::fromEinsum(
      *this, rows + "h," + rows + (getAccumulate() ? ",vh->vh" : "->vh"),
      kinds);
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  // A table that is the output head too has a gradient already; its rows are
  // added to in place, in f32.
  Value accumulate;
  if (elementTypeOf(getTable()).isF32())
    accumulate = gradients.take(getTable());
  Value grad =
      EmbeddingGradOp::create(builder, getLoc(), detail::getF32Type(getTable()),
                              dy, getTokens(), accumulate, getPadAttr());
  gradients.add(getTable(), castLike(builder, getTable(), grad));
  return success();
}

// A look-up adds nothing but zeros.
double EmbeddingOp::countRoundings(unsigned result) { return 0; }

Contribution EmbeddingGradOp::getContribution(OpOperand &operand) {
  return isOneOf(operand, getAccumulateMutable()) ? Contribution::Linear
                                                  : Contribution::Factor;
}

//===----------------------------------------------------------------------===//
// On whole tensors
//===----------------------------------------------------------------------===//

void EmbeddingGradOp::setSymbolicValues(SymbolicValues &symbolic) {
  RankedTensorType type = symbolic.getType(getResult());
  const Term *result = symbolic.make(
      getOperationName(), {symbolic.get(getDy()), symbolic.get(getTokens())},
      type, {{getPadAttrName(), getPadAttr()}});
  if (getAccumulate()) {
    symbolic.use(Lemma::Accumulation);
    result = symbolic.add({result, symbolic.get(getAccumulate())}, type);
  }
  symbolic.set(getResult(), result);
}
