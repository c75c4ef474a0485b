//===- LiveRows.cpp - Rows of slots without a token -------------*- C++ -*-===//
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
static bool isSlotBySlot(Operation *op, OpOperand &operand, OpResult result) {
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

LiveRows::LiveRows(func::FuncOp function) {
  if (getEntryKind(function) != EntryKind::Decode)
    return;
  for (BlockArgument argument : function.getArguments()) {
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    if (buffer && isOfPositions(buffer.getRole()))
      positions = argument;
  }
  if (!positions)
    return;
  // What the host fills for each slot is of the same slots.
  for (BlockArgument argument : function.getArguments())
    if (argument.getType() == positions.getType())
      aligned.insert(argument);
  findAligned(function.front());
  findMixed(function.front());
}

void LiveRows::findAligned(Block &body) {
  for (Operation &op : body.without_terminator())
    for (OpResult result : op.getResults())
      for (OpOperand &operand : op.getOpOperands())
        if (aligned.contains(operand.get()) &&
            isSlotBySlot(&op, operand, result))
          aligned.insert(result);
}

void LiveRows::findMixed(Block &body) {
  for (Operation &op : llvm::reverse(body.without_terminator()))
    for (OpOperand &operand : op.getOpOperands())
      if (llvm::any_of(op.getResults(), [&](OpResult result) {
            return (!result.use_empty() || op.getNumResults() == 1) &&
                   (mixed.contains(result) ||
                    !isSlotBySlot(&op, operand, result));
          }))
        mixed.insert(operand.get());
}

Value LiveRows::get(Value factor) const {
  if (!positions || !aligned.contains(factor) || mixed.contains(factor))
    return {};
  RankedTensorType slots = getTensor(positions), rows = getTensor(factor);
  // A rank's rows are those of its own slots.
  const bool isOwn = slots.getDimSize(0) == rows.getDimSize(0) &&
                     slots.getNumElements() == slots.getDimSize(0) &&
                     ccl::getDimAxes(slots, 0) == ccl::getDimAxes(rows, 0);
  LDBG() << "rows of " << rows << (isOwn ? "" : " do not")
         << " belong to slots";
  return isOwn ? positions : Value();
}
