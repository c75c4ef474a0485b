//===- HeadLoss.cpp - The output head with its loss, among ranks ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

using namespace mlir;
using namespace mlir::ccl;

/// What chunks add up: the hidden dimension for logits, the vocabulary for the
/// softmax and the gradient of h, tokens for the rest.
template <typename Op>
static double countHeadRoundings(Op head) {
  auto h = cast<RankedTensorType>(head.getH().getType()),
       table = cast<RankedTensorType>(head.getTable().getType());
  double tokens = 1;
  for (int64_t extent : h.getShape().drop_back())
    tokens *= extent;
  return optimus::RoundingOpInterface::kElementwise + tokens +
         table.getDimSize(1) + table.getDimSize(0) +
         optimus::getMesh(head).getProduct(getDimAxes(table, 0));
}

double HeadLossOp::countRoundings(unsigned result) {
  return countHeadRoundings(*this);
}
double HeadLossGradOp::countRoundings(unsigned result) {
  return countHeadRoundings(*this);
}
