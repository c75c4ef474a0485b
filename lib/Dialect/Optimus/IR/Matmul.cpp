//===- Matmul.cpp - Products of matrices ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "Operands.h"
#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;

Contribution MatmulOp::getContribution(OpOperand &operand) {
  bool isTerm = isOneOf(operand, getBiasMutable()) ||
                isOneOf(operand, getResidualMutable());
  return isTerm ? Contribution::Linear : Contribution::Factor;
}

Work MatmulOp::getWork() {
  auto multiply = [](Value tensor, ArrayRef<int64_t> dims) {
    int64_t extent = 1;
    for (int64_t dim : dims)
      extent *= shapeOf(tensor)[dim];
    return extent;
  };
  return {.kind = Work::Product,
          .m = multiply(getA(), getMDimsOfA()),
          .n = multiply(getB(), getNDimsOfB()),
          .k = multiply(getA(), getKDimsOfA()),
          .transA = getTransposeA(),
          .transB = getTransposeB()};
}

bool mlir::optimus::isProduct(Operation *op) {
  auto working = dyn_cast<WorkOpInterface>(op);
  return working && working.getWork().kind == Work::Product;
}
