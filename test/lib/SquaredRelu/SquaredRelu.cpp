//===- SquaredRelu.cpp - An operation from outside ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that an elementwise operation of one's own takes: a rule for shards, a
// gradient and a scalar body. docs/add-an-op.md shows it.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace example;

static ShardingRule elementwise(Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  StringRef all = StringRef("abcdefghijklmnop").take_front(type.getRank());
  return ShardingRule::fromEinsum(op, (all + "->" + all).str());
}
ShardingRule SquaredReluOp::getShardingRule() { return elementwise(*this); }
ShardingRule SquaredReluSlopeOp::getShardingRule() {
  return elementwise(*this);
}

LogicalResult SquaredReluOp::buildGradient(OpBuilder &builder,
                                           ArrayRef<Value> resultGradients,
                                           GradientAccumulator &gradients) {
  if (Value dy = resultGradients[0])
    gradients.add(getInput(),
                  MulOp::create(builder, getLoc(), dy,
                                SquaredReluSlopeOp::create(builder, getLoc(),
                                                           getInput())));
  return success();
}

SmallVector<Num, 2> SquaredReluOp::buildElement(KernelBuilder &k,
                                                ArrayRef<Num> operands,
                                                DictionaryAttr) {
  Num x = k.max(operands[0], k.constant(0, operands[0].getType()));
  return {x * x};
}
SmallVector<Num, 2> SquaredReluSlopeOp::buildElement(KernelBuilder &k,
                                                     ArrayRef<Num> operands,
                                                     DictionaryAttr) {
  return {k.max(operands[0], k.constant(0, operands[0].getType())) * 2.0};
}
