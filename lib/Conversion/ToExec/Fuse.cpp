//===- Fuse.cpp - Products and norm gradients take in the sums around them *-
//C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/ToExec/Passes.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

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

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Applies `fuse(part, other)` to the two operands in either order until it
/// succeeds. `part` has one use.
static LogicalResult
tryBothOrders(Operation *op,
              function_ref<LogicalResult(Value part, Value other)> fuse) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (lhs.hasOneUse() && succeeded(fuse(lhs, rhs)))
    return success();
  return success(rhs.hasOneUse() && succeeded(fuse(rhs, lhs)));
}

namespace {
class FusePass : public optimus::impl::FusePassBase<FusePass> {
public:
  void runOnOperation() override {
    SmallVector<Operation *> candidates;
    getOperation().walk([&](Operation *op) {
      if (isa<AddOp, MulOp>(op))
        candidates.push_back(op);
    });
    for (Operation *op : candidates) {
      if (auto add = dyn_cast<AddOp>(op))
        fuseAdd(add);
      else
        fuseMul(cast<MulOp>(op));
    }
  }

private:
  void fuseAdd(AddOp add) {
    (void)tryBothOrders(add, [&](Value part, Value other) -> LogicalResult {
      if (auto matmul = part.getDefiningOp<MatmulOp>())
        return fuseAddend(add, matmul, other);
      if (auto grad = part.getDefiningOp<LayerNormGradOp>())
        return fuseResidual(add, grad, grad.getDx(), part, other);
      if (auto grad = part.getDefiningOp<RmsNormGradOp>())
        return fuseResidual(add, grad, grad.getDx(), part, other);
      if (auto grad = part.getDefiningOp<NormGradApplyOp>())
        return fuseResidual(add, grad, grad.getDx(), part, other);
      return failure();
    });
  }

  /// Makes `other` the bias or the residual of `matmul`.
  LogicalResult fuseAddend(AddOp add, MatmulOp matmul, Value other) {
    if (matmul.getScale())
      return failure();
    ArrayRef<int64_t> shape = getShape(matmul.getResult());
    bool isBias = getShape(other) == shape.take_back(matmul.getNumN()) &&
                  matmul.getNumM() > 0 && !matmul.getBias();
    bool isResidual = getShape(other) == shape && !matmul.getResidual();
    if (!(isBias || isResidual) || failed(moveTo(add, matmul.getResult())))
      return failure();
    if (isBias) {
      matmul.getBiasMutable().assign(other);
      ++numBiases;
    } else {
      matmul.getResidualMutable().assign(other);
      ++numResiduals;
    }
    replace(add, matmul.getResult());
    return success();
  }

  /// Makes `other` the residual of a norm's gradient.
  template <typename Op>
  LogicalResult fuseResidual(AddOp add, Op grad, Value dx, Value part,
                             Value other) {
    if (part != dx || grad.getResidual() || getShape(other) != getShape(part) ||
        failed(moveTo(add, part)))
      return failure();
    grad.getResidualMutable().assign(other);
    ++numResiduals;
    replace(add, part);
    return success();
  }

  void fuseMul(MulOp mul) {
    (void)tryBothOrders(mul, [&](Value part, Value other) -> LogicalResult {
      auto matmul = part.getDefiningOp<MatmulOp>();
      if (!matmul || matmul.getScale() ||
          getShape(other) != getShape(matmul.getResult()) ||
          failed(moveTo(mul, matmul.getResult())))
        return failure();
      matmul.getScaleMutable().assign(other);
      ++numScales;
      replace(mul, matmul.getResult());
      return success();
    });
  }
};
} // namespace
