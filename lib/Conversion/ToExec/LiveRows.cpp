//===- LiveRows.cpp - Rows that nobody reads --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LiveRows.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/ShardingRule.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-to-exec"

using namespace mlir;
using namespace mlir::optimus;

static RankedTensorType getTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() > 0 ? type : RankedTensorType();
}

/// Whether each entry of a result's first dimension is made of one entry of
/// that of an operand, the same of both.
static bool isEntryByEntry(Operation *op, OpOperand &operand, OpResult result) {
  if (!getTensor(operand.get()) || !getTensor(result))
    return false;
  // The tokens of a product lie in the rows of its first factor.
  if (auto product = dyn_cast<ccl::MatmulOp>(op))
    return operand.getOperandNumber() == 0 && !product.getTransposeA();
  if (auto rule = dyn_cast<ShardingRuleOpInterface>(op)) {
    ShardingRule known = rule.getShardingRule();
    const int64_t factor = known.operands[operand.getOperandNumber()].front();
    return known.results[result.getResultNumber()].front() == factor &&
           known.factors[factor].kind == FactorKind::Parallel;
  }
  // Collectives move what stays the same as a whole.
  return isa<ccl::CCLDialect>(op->getDialect()) && op->getNumOperands() == 1;
}

/// Whether it chooses the token of a chunk behind which logits are asked for:
/// the only entry that is chosen without a length.
static bool isLast(TakeOp take) {
  return !take.getLength() && isa<BlockArgument>(take.getIndex());
}

/// Whether an operand's rows without a token are not read: caches drop those of
/// a chunk, and the chosen token of one is no such row.
static bool skipsRows(Operation *op, OpOperand &operand) {
  if (auto append = dyn_cast<CacheAppendOp>(op))
    return append.getSlot() && isa<BlockArgument>(append.getPositions()) &&
           operand.get() == append.getRows();
  auto take = dyn_cast<TakeOp>(op);
  return take && isLast(take) && operand.get() == take.getX();
}

LiveRows::LiveRows(func::FuncOp function) {
  const EntryKind kind = getEntryKind(function);
  if (!llvm::is_contained(kGenerationKinds, kind))
    return;
  for (BlockArgument argument : function.getArguments()) {
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    if (!buffer || !isOfPositions(buffer.getRole()))
      continue;
    Numbers positions{argument, {}, {}};
    // What the host fills for each token is of the same tokens.
    for (BlockArgument other : function.getArguments())
      if (other.getType() == argument.getType())
        positions.aligned.insert(other);
    all.push_back(std::move(positions));
  }
  if (kind == EntryKind::Prefill)
    for (auto take : function.front().getOps<TakeOp>())
      if (isLast(take))
        all.push_back({take.getIndex(), {take.getResult()}, {}});
  for (Numbers &one : all) {
    one.findAligned(function.front());
    one.findMixed(function.front());
  }
}

void LiveRows::Numbers::findAligned(Block &body) {
  for (Operation &op : body.without_terminator())
    for (OpResult result : op.getResults())
      for (OpOperand &operand : op.getOpOperands())
        if (aligned.contains(operand.get()) &&
            isEntryByEntry(&op, operand, result))
          aligned.insert(result);
}

void LiveRows::Numbers::findMixed(Block &body) {
  for (Operation &op : llvm::reverse(body.without_terminator()))
    for (OpOperand &operand : op.getOpOperands())
      if (!skipsRows(&op, operand) &&
          llvm::any_of(op.getResults(), [&](OpResult result) {
            return (!result.use_empty() || op.getNumResults() == 1) &&
                   (mixed.contains(result) ||
                    !isEntryByEntry(&op, operand, result));
          }))
        mixed.insert(operand.get());
}

Value LiveRows::Numbers::get(Value factor) const {
  if (!aligned.contains(factor) || mixed.contains(factor))
    return {};
  RankedTensorType all = getTensor(numbers), rows = getTensor(factor);
  // A rank's rows are those of its own numbers.
  const bool isOwn = all.getDimSize(0) == rows.getDimSize(0) &&
                     all.getNumElements() == all.getDimSize(0) &&
                     ccl::getDimAxes(all, 0) == ccl::getDimAxes(rows, 0);
  LDBG() << "rows of " << rows << (isOwn ? "" : " do not")
         << " belong to numbers";
  return isOwn ? numbers : Value();
}

Value LiveRows::get(Value factor) const {
  for (const Numbers &one : all)
    if (Value numbers = one.get(factor))
      return numbers;
  return {};
}
