//===- Elementwise.cpp - Sums, products and activations ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "Einsums.h"
#include "Gradients.h"
#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static LogicalResult verifyBroadcasting(Operation *op) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (failed(expectShape(op, "C1", "a result", op->getResult(0), shapeOf(lhs))))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(lhs), suffix = shapeOf(rhs);
  if (suffix.size() > shape.size() || shape.take_back(suffix.size()) != suffix)
    return op->emitOpError("C2: expected rhs to have the last dimensions of ")
           << toString(shape) << ", found " << toString(suffix);
  Type elements = elementTypeOf(lhs);
  if (failed(expectElements(op, "C3", "a result", op->getResult(0), elements)))
    return failure();
  return expectElements(op, "C3", "rhs", rhs, elements, /*orF32=*/true);
}

LogicalResult AddOp::verify() { return verifyBroadcasting(*this); }
LogicalResult MulOp::verify() { return verifyBroadcasting(*this); }

LogicalResult SumLeadingOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput()), suffix = shapeOf(getResult());
  if (suffix.size() > shape.size() || shape.take_back(suffix.size()) != suffix)
    return emitOpError("C1: expected a result with the last dimensions of ")
           << toString(shape) << ", found " << toString(suffix);
  return success();
}

void GeluOp::stateFacts(ModelFacts &facts) {
  facts.decide("activation", getExact() ? "exact gelu" : "gelu");
}

void SwigluOp::stateFacts(ModelFacts &facts) {
  facts.decide("activation", "swiglu");
}

Value CastOp::getStandIn() { return getInput(); }

LogicalResult GeluOp::verify() { return success(); }
LogicalResult GeluWithSlopeOp::verify() { return success(); }
LogicalResult SwigluOp::verify() { return success(); }
LogicalResult SwigluGradOp::verify() { return success(); }
LogicalResult CastOp::verify() {
  return expectShape(*this, "C1", "a result", getResult(), shapeOf(getInput()));
}

//===----------------------------------------------------------------------===//
// Sharding rules
//===----------------------------------------------------------------------===//

/// lhs, rhs -> result with rhs along the last dimensions.
static ShardingRule suffixRule(Operation *op) {
  int64_t rank = rankOf(op->getOperand(0));
  int64_t suffix = rankOf(op->getOperand(1));
  std::string all = letters(rank, 'a');
  return ShardingRule::fromEinsum(op, all + "," + all.substr(rank - suffix) +
                                          "->" + all);
}

ShardingRule AddOp::getShardingRule() { return suffixRule(*this); }
ShardingRule MulOp::getShardingRule() { return suffixRule(*this); }

ShardingRule SumLeadingOp::getShardingRule() {
  int64_t rank = rankOf(getInput());
  int64_t leading = rank - rankOf(getResult());
  std::string all = letters(rank, 'a');
  SmallVector<std::pair<char, FactorKind>> kinds;
  for (int64_t i = 0; i < leading; ++i)
    kinds.push_back({all[i], FactorKind::Contracted});
  return ShardingRule::fromEinsum(*this, all + "->" + all.substr(leading),
                                  kinds);
}

ShardingRule GeluOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule GeluWithSlopeOp::getShardingRule() {
  return elementwiseRule(*this);
}
ShardingRule SwigluOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule SwigluGradOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule CastOp::getShardingRule() { return elementwiseRule(*this); }

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// The gradient of a tensor that was repeated over the leading dimensions of
/// `gradient`.
static Value sumTo(OpBuilder &builder, Location loc, Value repeated,
                   Value gradient) {
  if (rankOf(gradient) == rankOf(repeated))
    return castLike(builder, repeated, gradient);
  return SumLeadingOp::create(builder, loc, repeated.getType(), gradient);
}

LogicalResult AddOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> resultGradients,
                                   GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  gradients.add(getLhs(), dy);
  gradients.add(getRhs(), sumTo(builder, getLoc(), getRhs(), dy));
  return success();
}

LogicalResult MulOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> resultGradients,
                                   GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  Type type = getResult().getType();
  gradients.add(getLhs(), MulOp::create(builder, getLoc(), dy, getRhs()));
  Value product = MulOp::create(builder, getLoc(), dy, getLhs());
  if (getRhs().getType() != type)
    GradientAccumulator::copyRole(getResult(), product);
  gradients.add(getRhs(), sumTo(builder, getLoc(), getRhs(), product));
  return success();
}

LogicalResult GeluOp::buildGradient(OpBuilder &builder,
                                    ArrayRef<Value> resultGradients,
                                    GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  OpBuilder forward(getOperation());
  auto withSlope =
      GeluWithSlopeOp::create(forward, getLoc(), getInput(), getExact());
  GradientAccumulator::copyRole(getResult(), withSlope.getResult());
  GradientAccumulator::copyRole(getResult(), withSlope.getSlope());
  getResult().replaceAllUsesWith(withSlope.getResult());
  gradients.add(getInput(),
                MulOp::create(builder, getLoc(), dy, withSlope.getSlope()));
  return success();
}

LogicalResult SwigluOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> resultGradients,
                                      GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  auto grad = SwigluGradOp::create(builder, getLoc(), dy, getGate(), getUp());
  gradients.add(getGate(), grad.getDgate());
  gradients.add(getUp(), grad.getDup());
  return success();
}

LogicalResult CastOp::buildGradient(OpBuilder &builder,
                                    ArrayRef<Value> resultGradients,
                                    GradientAccumulator &gradients) {
  gradients.add(getInput(),
                CastOp::create(builder, getLoc(), getInput().getType(),
                               resultGradients[0]));
  return success();
}

//===----------------------------------------------------------------------===//
// What passes ask
//===----------------------------------------------------------------------===//

// Of a narrow result, Rounding.cpp counts the one rounding that there is.
double CastOp::countRoundings(unsigned result) { return 0; }

Contribution AddOp::getContribution(OpOperand &operand) {
  return Contribution::Linear;
}
Contribution SumLeadingOp::getContribution(OpOperand &operand) {
  return Contribution::Linear;
}

//===----------------------------------------------------------------------===//
// On whole tensors
//===----------------------------------------------------------------------===//

void AddOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.set(getResult(),
               symbolic.add({symbolic.get(getLhs()), symbolic.get(getRhs())},
                            symbolic.getType(getResult())));
}

void MulOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.set(getResult(),
               symbolic.multiply(symbolic.get(getLhs()), symbolic.get(getRhs()),
                                 symbolic.getType(getResult())));
}

void SumLeadingOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *input = symbolic.get(getInput());
  RankedTensorType type = symbolic.getType(getResult());
  if (input->type == type)
    symbolic.use(Lemma::NeutralElement);
  else
    input = symbolic.make(getOperationName(), input, type);
  symbolic.set(getResult(), input);
}

void GeluWithSlopeOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *input = symbolic.get(getInput());
  SymbolicValues::Parameter exact{getExactAttrName(), getExactAttr()};
  symbolic.use(Lemma::ValueBesideSlope);
  symbolic.set(getResult(), symbolic.make(GeluOp::getOperationName(), input,
                                          input->type, exact));
  symbolic.set(getSlope(), symbolic.make(getOperationName(), input, input->type,
                                         exact, /*result=*/1));
}
