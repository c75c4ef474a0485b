//===- Elementwise.cpp - Sums, products and activations ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

Contribution AddOp::getContribution(OpOperand &operand) {
  return Contribution::Linear;
}
Contribution SumLeadingOp::getContribution(OpOperand &operand) {
  return Contribution::Linear;
}
