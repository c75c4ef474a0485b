//===- Recomputation.cpp - What of a forward may run again ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/Transforms/Recomputation.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::OptimusDialect;

/// Of what adds to the loss of the microbatches before, the loss of this one;
/// of an operation with one operand, that. Else null.
static Value getLossBefore(func::FuncOp function, Operation *op) {
  if (op->getNumOperands() == 1)
    return op->getOperand(0);
  if (auto add = dyn_cast<optimus::AddOp>(op))
    for (OpOperand &operand : add->getOpOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand.get());
      if (!argument)
        continue;
      optimus::BufferAttr buffer =
          optimus::getArgumentBuffer(function, argument.getArgNumber());
      if (buffer && buffer.getRole() == "loss_sum")
        return add->getOperand(1 - operand.getOperandNumber());
    }
  return {};
}

/// The operation of the loss: the first on the way back from the result with
/// that role, with several operands, none of them the loss before. Null where
/// there is none.
static Operation *findBoundary(func::FuncOp function) {
  Operation *terminator = function.front().getTerminator();
  for (auto [value, buffer] : llvm::zip_equal(
           terminator->getOperands(), optimus::getResultBuffers(function))) {
    if (!buffer || buffer.getRole() != "loss_sum")
      continue;
    Operation *op = value.getDefiningOp();
    while (op) {
      Value before = getLossBefore(function, op);
      if (!before)
        break;
      op = before.getDefiningOp();
    }
    return op;
  }
  return nullptr;
}

std::optional<Recomputation> Recomputation::of(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return std::nullopt;
  Operation *boundary = findBoundary(function);
  return boundary ? std::optional(Recomputation(boundary)) : std::nullopt;
}

Recomputation::Recomputation(Operation *boundary)
    : block(boundary->getBlock()), boundary(boundary) {
  bool isBackward = false;
  for (Operation &op : *block) {
    int64_t here = position.size();
    position[&op] = here;
    for (Value operand : op.getOperands())
      lastUse[operand] = here;
    if (&op == boundary)
      isBackward = true;
    else if (!op.hasTrait<OpTrait::IsTerminator>())
      (isBackward ? backward : forward).push_back(&op);
  }
  findActivations();
  findRefetched();
}

bool Recomputation::hasBackward() const {
  return llvm::any_of(backward, [&](Operation *op) {
    return llvm::any_of(op->getOperands(),
                        [&](Value operand) { return isActivation(operand); });
  });
}

bool Recomputation::isForward(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && op->getBlock() == block &&
         position.lookup(op) < static_cast<int64_t>(forward.size());
}

void Recomputation::findActivations() {
  ValueSet ofBatch;
  for (BlockArgument argument : block->getArguments())
    if (cast<RankedTensorType>(argument.getType()).getElementType().isInteger())
      ofBatch.insert(argument);
  for (Operation *op : forward)
    if (llvm::any_of(op->getOperands(), [&](Value operand) {
          return ofBatch.contains(operand);
        })) {
      ofBatch.insert_range(op->getResults());
      activations.insert_range(op->getResults());
    }
}

void Recomputation::findRefetched() {
  ValueSet moved;
  for (Operation *op : forward) {
    if (llvm::any_of(op->getResults(),
                     [&](Value result) { return isActivation(result); }))
      continue;
    bool isMoved = !isMemoryEffectFree(op) ||
                   llvm::any_of(op->getOperands(), [&](Value operand) {
                     return moved.contains(operand);
                   });
    if (isMoved)
      moved.insert_range(op->getResults());
  }
  for (Value value : moved)
    if (lastUse.lookup(value) <= getPosition(boundary))
      refetched.insert(value);
}

/// Whether an operation may add to an operand in place, as far as types go: a
/// term of its sum, never a factor.
static bool mayAddTo(OpOperand &operand) {
  Operation *op = operand.getOwner();
  auto sum = dyn_cast<optimus::SumOpInterface>(op);
  return sum && sum.getContribution(operand) != optimus::Contribution::Factor &&
         llvm::is_contained(op->getResultTypes(), operand.get().getType());
}

bool Recomputation::isRepeatable(Operation *op) const {
  return !optimus::isProduct(op) ||
         llvm::none_of(op->getOpOperands(), [&](OpOperand &operand) {
           return mayAddTo(operand) && isActivation(operand.get()) &&
                  lastUse.lookup(operand.get()) == getPosition(op);
         });
}

/// A product that could not add to an operand in place, since the operand was
/// used later, does not now: it would round otherwise.
void Recomputation::keepBuffersApart(Operation *op, Operation *original) {
  if (!optimus::isProduct(op))
    return;
  for (auto [now, before] :
       llvm::zip_equal(op->getOpOperands(), original->getOperands()))
    if (mayAddTo(now) && lastUse.lookup(before) > position[original] &&
        llvm::none_of(now.get().getUsers(), [&](Operation *user) {
          return op->isBeforeInBlock(user);
        }))
      op->setAttr(kOwnBuffer, UnitAttr::get(op->getContext()));
}

namespace {
/// Clones operations of the forward to where the backward needs them.
class Cloner {
public:
  explicit Cloner(ValueSet repeated) : repeated(std::move(repeated)) {}

  /// A value of the forward as the backward has it: kept, or recomputed before
  /// the insertion point.
  Value materialize(Value value, OpBuilder &builder) {
    if (!repeated.contains(value))
      return value;
    if (Value known = again.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, materialize(operand, builder));
    Operation *clone = builder.clone(*op, operands);
    clone->setAttr(OptimusDialect::kRecomputed, builder.getUnitAttr());
    clone->setLoc(
        optimus::withPhase(clone->getLoc(), optimus::ProgramPhase::Recomputed));
    again.map(op->getResults(), clone->getResults());
    clones.push_back({clone, op});
    return again.lookup(value);
  }

  ArrayRef<std::pair<Operation *, Operation *>> getClones() const {
    return clones;
  }

private:
  ValueSet repeated;
  IRMapping again;
  /// With what each is a clone of.
  SmallVector<std::pair<Operation *, Operation *>> clones;
};
} // namespace

int64_t Recomputation::apply(const ValueSet &repeated) && {
  ValueSet all = repeated;
  all.insert_range(refetched);
  Cloner cloner(std::move(all));
  for (Operation *op : backward) {
    OpBuilder builder(op);
    for (OpOperand &operand : op->getOpOperands())
      operand.set(cloner.materialize(operand.get(), builder));
  }
  for (auto [clone, original] : cloner.getClones())
    keepBuffersApart(clone, original);
  // The forward need not compute what only the backward uses.
  for (Operation *op : llvm::reverse(forward))
    if (isOpTriviallyDead(op))
      op->erase();
    else
      keepBuffersApart(op, op);
  return cloner.getClones().size();
}
