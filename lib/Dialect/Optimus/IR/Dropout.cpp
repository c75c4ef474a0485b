//===- Dropout.cpp - The dropout operation ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/Dropout.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult DropoutOp::verify() {
  auto x = cast<RankedTensorType>(getX().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  auto random = cast<RankedTensorType>(getRandom().getType());
  if (x.getRank() == 0 || result.getShape() != x.getShape()) {
    InFlightDiagnostic error = emitOpError("C1: expected a result of shape [");
    llvm::interleaveComma(x.getShape(), error);
    error << "], of one dimension at least, found [";
    llvm::interleaveComma(result.getShape(), error);
    return error << ']';
  }
  if (result.getElementType() != x.getElementType())
    return emitOpError("C1: expected a result of ")
           << x.getElementType() << " elements, found "
           << result.getElementType();
  if (random.getShape() !=
      ArrayRef<int64_t>(optimus_support::kNumRandomWords)) {
    InFlightDiagnostic error = emitOpError("C2: expected random of shape [")
                               << optimus_support::kNumRandomWords
                               << "], found [";
    llvm::interleaveComma(random.getShape(), error);
    return error << ']';
  }
  double rate = getRate().convertToDouble();
  // NaN is neither.
  if (!(rate >= 0 && rate < 1))
    return emitOpError("C3: expected a rate of 0 at least and below 1, found ")
           << rate;
  int64_t stream = getStreamAttr().getInt();
  int64_t end = optimus_support::kFirstReservedStream;
  if (stream < 0 || stream >= end)
    return emitOpError("C4: expected a stream from 0 to ")
           << end - 1 << ", found " << stream;
  return success();
}

ShardingRule DropoutOp::getShardingRule() {
  std::string dims;
  int64_t rank = cast<RankedTensorType>(getX().getType()).getRank();
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back('A' + i);
  return ShardingRule::fromEinsum(*this, dims + ",w->" + dims,
                                  {{'w', FactorKind::Whole}});
}

// The result is linear in x, with factors that depend on x's index alone: the
// gradient passes the same elements, drawn again.
LogicalResult DropoutOp::buildGradient(OpBuilder &builder,
                                       ArrayRef<Value> resultGradients,
                                       GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  gradients.add(getX(), DropoutOp::create(builder, getLoc(), dy, getRandom(),
                                          getRateAttr(), getStreamAttr()));
  return success();
}

Value DropoutOp::getExpectedValue() { return getX(); }

void DropoutOp::stateFacts(ModelFacts &facts) {
  facts.mention("dropout", getRateAttr());
}

Value DropoutOp::getStandIn() { return getExpectedValue(); }
