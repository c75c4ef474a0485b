//===- Fuse.cpp - Operations take in the sums around them -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/ToExec/Passes.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-fuse"

namespace mlir::optimus {
#define GEN_PASS_DEF_FUSEPASS
#include "optimus/Conversion/ToExec/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// Moves the operation that makes `value` down to `user`, its only user, where
/// every other operand of `user` is there. Fails where another result of the
/// operation is used before.
static LogicalResult moveTo(Operation *user, Value value) {
  Operation *op = value.getDefiningOp();
  if (op->getBlock() != user->getBlock())
    return failure();
  for (Operation *other : op->getUsers())
    if (other != user &&
        (other->getBlock() != user->getBlock() || other->isBeforeInBlock(user)))
      return failure();
  op->moveBefore(user);
  return success();
}

/// Lets `result`, made by a moved operation, stand for the result of `user`.
static void replace(Operation *user, Value result) {
  result.setType(user->getResult(0).getType());
  Operation *op = result.getDefiningOp();
  op->setLoc(fuseLocations(user->getLoc(), op->getLoc()));
  user->getResult(0).replaceAllUsesWith(result);
  user->erase();
}

namespace {
class FusePass : public optimus::impl::FusePassBase<FusePass> {
public:
  void runOnOperation() override {
    SmallVector<AbsorbableOpInterface> candidates;
    getOperation().walk(
        [&](AbsorbableOpInterface op) { candidates.push_back(op); });
    for (AbsorbableOpInterface op : candidates)
      if (failed(fuse(op, op->getOperand(0), op->getOperand(1))))
        (void)fuse(op, op->getOperand(1), op->getOperand(0));
  }

private:
  /// Lets the producer of `part` absorb `other`, the other operand of `op`,
  /// where `op` is the part's only user.
  LogicalResult fuse(AbsorbableOpInterface op, Value part, Value other) {
    auto maker = part.getDefiningOp<FusibleOpInterface>();
    if (!maker || !part.hasOneUse())
      return failure();
    std::optional<FusionSlot> slot =
        op.getSlotIn(maker, cast<OpResult>(part), other);
    if (!slot || failed(moveTo(op, part)))
      return failure();
    LDBG() << maker->getName() << " of " << describeLocation(maker->getLoc())
           << " takes in " << op->getName() << " of "
           << describeLocation(op->getLoc());
    slot->operand.assign(other);
    count(slot->kind);
    replace(op, part);
    return success();
  }

  void count(FusionSlot::Kind kind) {
    switch (kind) {
    case FusionSlot::Bias:
      ++numBiases;
      return;
    case FusionSlot::Residual:
      ++numResiduals;
      return;
    case FusionSlot::Scale:
      ++numScales;
      return;
    }
  }
};
} // namespace
