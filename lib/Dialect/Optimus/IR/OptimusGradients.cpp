//===- OptimusGradients.cpp - Gradients of operations ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In what follows `dy` is the gradient of a result y: d(loss)/d(y), with the
// shape of y.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// GradientAccumulator
//===----------------------------------------------------------------------===//

void GradientAccumulator::copyRole(Value from, Value to) {
  auto result = dyn_cast<OpResult>(to);
  StringRef role = getRole(from);
  // The first role stays: one value may be the gradient of several.
  if (!result || role.empty() || !getRole(to).empty())
    return;
  Operation *op = result.getOwner();
  Builder builder(op->getContext());
  auto roleAttr = builder.getStringAttr(role);
  if (op->getNumResults() > 1) {
    SmallVector<Attribute> roles(op->getNumResults(),
                                 builder.getStringAttr(""));
    if (auto known = op->getAttrOfType<ArrayAttr>(OptimusDialect::kResultRoles))
      roles.assign(known.begin(), known.end());
    roles[result.getResultNumber()] = roleAttr;
    op->setAttr(OptimusDialect::kResultRoles, builder.getArrayAttr(roles));
  }
  if (result.getResultNumber() == 0)
    op->setAttr(OptimusDialect::kRole, roleAttr);
}

void GradientAccumulator::add(Value value, Value gradient) {
  assert(value.getType() == gradient.getType() &&
         "a gradient has the type of its value");
  // An addend lies where the sum does.
  copyRole(value, gradient);
  Value &known = gradients[value];
  if (known) {
    gradient = AddOp::create(builder, gradient.getLoc(), known, gradient);
    copyRole(value, gradient);
  }
  known = gradient;
}

Value GradientAccumulator::take(Value value) {
  Value gradient = gradients.lookup(value);
  gradients.erase(value);
  return gradient;
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

/// Fails where a result that only gradients may read has a gradient itself.
static LogicalResult rejectGradients(Operation *op, ArrayRef<Value> gradients,
                                     ArrayRef<StringRef> names,
                                     unsigned first) {
  for (auto [gradient, name] : llvm::zip(gradients.drop_front(first), names))
    if (gradient)
      return op->emitOpError()
             << "has no gradient for a loss that depends on its result '"
             << name << "'";
  return success();
}

/// The gradient of a tensor that was repeated over the leading dimensions of
/// `gradient`.
static Value sumTo(OpBuilder &builder, Location loc, Type type,
                   Value gradient) {
  if (gradient.getType() == type)
    return gradient;
  return SumLeadingOp::create(builder, loc, type, gradient);
}

//===----------------------------------------------------------------------===//
// Products and elementwise operations
//===----------------------------------------------------------------------===//

// The result is dense over [M…, N…]; A holds M and K, B holds K and N. A
// product contracts the trailing group of its first operand and the leading
// group of its second, unless transposed, so the transposition flags name
// either order of either gradient and no dimension is ever moved:
//
//   A is [M, K]: dA = dy·Bᵀ          A is [K, M]: dA = B·dyᵀ
//   B is [K, N]: dB = Aᵀ·dy          B is [N, K]: dB = dyᵀ·A
LogicalResult MatmulOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> resultGradients,
                                      GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  if (getBias() || getResidual() || getScale())
    return emitOpError("with bias, residual or scale has no gradient; "
                       "differentiate before operations are fused");
  int64_t numM = getNumM(), numN = getNumN();
  if (numM == 0 || numN == 0)
    return emitOpError("needs a dimension that is not contracted in each "
                       "operand to have a gradient");
  Value a = getA(), b = getB();
  bool ta = getTransposeA(), tb = getTransposeB();

  Value da = ta ? MatmulOp::create(builder, getLoc(), b, dy, numN,
                                   /*transposeA=*/tb, /*transposeB=*/true)
                : MatmulOp::create(builder, getLoc(), dy, b, numN,
                                   /*transposeA=*/false, /*transposeB=*/!tb);
  gradients.add(a, da);
  Value db = tb ? MatmulOp::create(builder, getLoc(), dy, a, numM,
                                   /*transposeA=*/true, /*transposeB=*/ta)
                : MatmulOp::create(builder, getLoc(), a, dy, numM,
                                   /*transposeA=*/!ta, /*transposeB=*/false);
  gradients.add(b, db);
  return success();
}

LogicalResult AddOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> resultGradients,
                                   GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  gradients.add(getLhs(), dy);
  gradients.add(getRhs(), sumTo(builder, getLoc(), getRhs().getType(), dy));
  return success();
}

LogicalResult MulOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> resultGradients,
                                   GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  Type type = getResult().getType();
  gradients.add(getLhs(), MulOp::create(builder, getLoc(), dy, getRhs()));
  Value product = MulOp::create(builder, getLoc(), dy, getLhs());
  if (getRhs().getType() != type)
    GradientAccumulator::copyRole(getResult(), product);
  gradients.add(getRhs(),
                sumTo(builder, getLoc(), getRhs().getType(), product));
  return success();
}

LogicalResult GeluOp::buildGradient(OpBuilder &builder,
                                    ArrayRef<Value> resultGradients,
                                    GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
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
  if (!dy)
    return success();
  auto grad = SwigluGradOp::create(builder, getLoc(), dy, getGate(), getUp());
  gradients.add(getGate(), grad.getDgate());
  gradients.add(getUp(), grad.getDup());
  return success();
}

//===----------------------------------------------------------------------===//
// Normalisation and attention
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"mean", "rstd"}, 1)))
    return failure();
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  // What reaches x around the normalisation is added in the same pass over x.
  Value residual = gradients.take(getX());
  auto grad = LayerNormGradOp::create(builder, getLoc(), dy, getX(), getMean(),
                                      getRstd(), getGamma(), residual);
  gradients.add(getX(), grad.getDx());
  gradients.add(getGamma(), grad.getDgamma());
  gradients.add(getBeta(), grad.getDbeta());
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder,
                                       ArrayRef<Value> resultGradients,
                                       GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"rstd"}, 1)))
    return failure();
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  // What reaches x around the normalisation is added in the same pass over x.
  Value residual = gradients.take(getX());
  auto grad = RmsNormGradOp::create(builder, getLoc(), dy, getX(), getRstd(),
                                    getGamma(), /*sums=*/Value(), residual,
                                    /*size=*/IntegerAttr());
  gradients.add(getX(), grad.getDx());
  gradients.add(getGamma(), grad.getDgamma());
  return success();
}

// The transpose of a rotation is its inverse.
LogicalResult RotaryOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> resultGradients,
                                      GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  gradients.add(getX(), RotaryOp::create(builder, getLoc(), dy, getTheta(),
                                         !getInverse()));
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"lse"}, 1)))
    return failure();
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  auto grad =
      AttentionGradOp::create(builder, getLoc(), dy, getResult(), getLse(),
                              getInputs(), getLengths(), getCausal());
  for (auto [input, gradient] : llvm::zip(getInputs(), grad.getDinputs()))
    gradients.add(input, gradient);
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding, head and loss
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  // A table that is the output head too has a gradient already; its rows are
  // added to in place.
  Value accumulate = gradients.take(getTable());
  gradients.add(getTable(), EmbeddingGradOp::create(
                                builder, getLoc(), getTable().getType(), dy,
                                getTokens(), accumulate, getPadAttr()));
  return success();
}

LogicalResult HeadLossOp::buildGradient(OpBuilder &builder,
                                        ArrayRef<Value> resultGradients,
                                        GradientAccumulator &gradients) {
  // real_count counts targets: it depends on no parameter, so a gradient of it
  // goes nowhere.
  Value seed = resultGradients[0];
  if (!seed)
    return success();
  if (!matchPattern(seed, m_OneFloat()))
    return emitOpError("has a gradient only where its loss_sum is the "
                       "function's loss itself; here another operation uses "
                       "it on the way to the loss");
  OpBuilder forward(getOperation());
  auto grad = HeadLossGradOp::create(forward, getLoc(), getH(), getTable(),
                                     getTargets(), getBias(), getChunkAttr());
  getLossSum().replaceAllUsesWith(grad.getLossSum());
  getRealCount().replaceAllUsesWith(grad.getRealCount());
  gradients.add(getH(), grad.getDh());
  gradients.add(getTable(), grad.getDtable());
  if (getBias())
    gradients.add(getBias(), grad.getDbias());
  return success();
}
