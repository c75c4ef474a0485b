//===- BlockOrderTest.cpp - The order of operations that move -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/BlockOrder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// A block of modules, of which the last stays last.
class BlockOrderTest : public testing::Test {
protected:
  BlockOrderTest() : rewriter(&context, &order) {
    outer = ModuleOp::create(location);
    for (int i = 0; i != 8; ++i)
      outer->push_back(ModuleOp::create(location));
    order.begin(*outer->getBody());
  }

  SmallVector<Operation *> list() {
    SmallVector<Operation *> ops;
    for (Operation &op : *outer->getBody())
      ops.push_back(&op);
    return ops;
  }

  void expectOrder() {
    SmallVector<Operation *> ops = list();
    for (size_t i = 1; i != ops.size(); ++i) {
      EXPECT_TRUE(order.isBefore(ops[i - 1], ops[i])) << i;
      EXPECT_FALSE(order.isBefore(ops[i], ops[i - 1])) << i;
    }
  }

  MLIRContext context;
  Location location = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> outer;
  BlockOrder order;
  IRRewriter rewriter;
};

TEST_F(BlockOrderTest, FollowsMoves) {
  std::mt19937 random(1);
  for (int i = 0; i != 2000; ++i) {
    SmallVector<Operation *> ops = list();
    Operation *op = ops[random() % (ops.size() - 1)];
    Operation *place = ops[random() % ops.size()];
    if (op != place)
      rewriter.moveOpBefore(op, place);
  }
  expectOrder();
}

/// Whichever way they come, all have a number: where there is none left between
/// two neighbours, all are numbered anew.
TEST_F(BlockOrderTest, FollowsWhatIsCreatedAtOnePlace) {
  SmallVector<Operation *> ops = list();
  for (int i = 0; i != 3000; ++i) {
    rewriter.setInsertionPoint(ops[3]);
    ModuleOp::create(rewriter, location);
    rewriter.setInsertionPointAfter(ops[5]);
    ModuleOp::create(rewriter, location);
  }
  expectOrder();
}

TEST_F(BlockOrderTest, ForgetsWhatIsErased) {
  for (int i = 0; i != 100; ++i) {
    SmallVector<Operation *> ops = list();
    // A new one may get the address of an erased one.
    rewriter.eraseOp(ops[i % 6]);
    rewriter.setInsertionPoint(ops[6]);
    ModuleOp::create(rewriter, location);
    expectOrder();
  }
}

} // namespace
