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

/// The entry of a chunk that a prompt's logits are behind: the only one that is
/// chosen without a length.
static optimus::TakeOp findLast(func::FuncOp function) {
  for (auto take : function.front().getOps<optimus::TakeOp>())
    if (!take.getLength() && isa<BlockArgument>(take.getIndex()))
      return take;
  return {};
}

LiveRows::LiveRows(func::FuncOp function) {
  const EntryKind kind = getEntryKind(function);
  if (kind == EntryKind::Prefill) {
    optimus::TakeOp last = findLast(function);
    if (!last)
      return;
    numbers = last.getIndex();
    aligned.insert(last.getResult());
  } else if (kind == EntryKind::Decode) {
    for (BlockArgument argument : function.getArguments()) {
      BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
      if (buffer && isOfPositions(buffer.getRole()))
        numbers = argument;
    }
    if (!numbers)
      return;
    // What the host fills for each slot is of the same slots.
    for (BlockArgument argument : function.getArguments())
      if (argument.getType() == numbers.getType())
        aligned.insert(argument);
  } else {
    return;
  }
  findAligned(function.front());
  findMixed(function.front());
}

void LiveRows::findAligned(Block &body) {
  for (Operation &op : body.without_terminator())
    for (OpResult result : op.getResults())
      for (OpOperand &operand : op.getOpOperands())
        if (aligned.contains(operand.get()) &&
            isEntryByEntry(&op, operand, result))
          aligned.insert(result);
}

void LiveRows::findMixed(Block &body) {
  for (Operation &op : llvm::reverse(body.without_terminator()))
    for (OpOperand &operand : op.getOpOperands())
      if (llvm::any_of(op.getResults(), [&](OpResult result) {
            return (!result.use_empty() || op.getNumResults() == 1) &&
                   (mixed.contains(result) ||
                    !isEntryByEntry(&op, operand, result));
          }))
        mixed.insert(operand.get());
}

Value LiveRows::get(Value factor) const {
  if (!numbers || !aligned.contains(factor) || mixed.contains(factor))
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
