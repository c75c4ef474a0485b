//===- OptimusCanonicalization.cpp - Simpler forms --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products take in the sums around them in --optimus-fuse and not here:
// canonicalization also runs before partition, which needs plain products.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;

/// True where `kept` can stand for the result: it has its type, and no decision
/// on where the result lives would be lost.
static bool canReplace(Operation *op, Value kept) {
  return kept.getType() == op->getResult(0).getType() &&
         !op->hasAttr(OptimusDialect::kShardings);
}

/// Gives `kept` where `other` is a constant that `isNeutral` accepts.
static Value dropNeutral(Operation *op, Value kept, Value other,
                         bool (*isNeutral)(const APFloat &)) {
  DenseElementsAttr constant;
  if (!canReplace(op, kept) || !matchPattern(other, m_Constant(&constant)) ||
      !constant.isSplat() || !isNeutral(constant.getSplatValue<APFloat>()))
    return {};
  return kept;
}

// The sign of a zero is not kept: -0 + 0 becomes -0.
OpFoldResult AddOp::fold(FoldAdaptor) {
  auto isZero = [](const APFloat &value) { return value.isZero(); };
  if (Value kept = dropNeutral(*this, getLhs(), getRhs(), isZero))
    return kept;
  return dropNeutral(*this, getRhs(), getLhs(), isZero);
}

OpFoldResult MulOp::fold(FoldAdaptor) {
  auto isOne = [](const APFloat &value) { return value.isExactlyValue(1.0); };
  if (Value kept = dropNeutral(*this, getLhs(), getRhs(), isOne))
    return kept;
  return dropNeutral(*this, getRhs(), getLhs(), isOne);
}

OpFoldResult SumLeadingOp::fold(FoldAdaptor) {
  return canReplace(*this, getInput()) ? getInput() : Value();
}

/// Whether every number of element type `narrow` is one of `wide`, too.
static bool isExactIn(Type narrow, Type wide) {
  const auto &from = cast<FloatType>(narrow).getFloatSemantics(),
             &to = cast<FloatType>(wide).getFloatSemantics();
  return APFloat::semanticsPrecision(from) <= APFloat::semanticsPrecision(to) &&
         APFloat::semanticsMaxExponent(from) <=
             APFloat::semanticsMaxExponent(to);
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (canReplace(*this, getInput()))
    return getInput();
  auto first = getInput().getDefiningOp<CastOp>();
  if (!first || !canReplace(*this, first.getInput()) ||
      !isExactIn(getElementTypeOrSelf(first.getInput()),
                 getElementTypeOrSelf(getInput())))
    return {};
  return first.getInput();
}

void CastOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *input = symbolic.get(getInput());
  RankedTensorType type = symbolic.getType(getResult());
  bool isCast = input->what.getValue() == getOperationName();
  if (isCast && input->operands.front()->type == type &&
      isExactIn(type.getElementType(), input->type.getElementType()))
    input = input->operands.front();
  if (input->type == type)
    symbolic.use(Lemma::CastBack);
  else
    input = symbolic.make(getOperationName(), input, type);
  symbolic.set(getResult(), input);
}

/// Carries roles and shardings over to an operation that makes only the first
/// results of another.
static void copyAnnotations(Operation *from, Operation *to) {
  for (unsigned i = 0; i < to->getNumResults(); ++i)
    GradientAccumulator::copyRole(from->getResult(i), to->getResult(i));
  StringRef name = OptimusDialect::kShardings;
  if (auto shardings = from->getAttrOfType<ArrayAttr>(name))
    to->setAttr(name, ArrayAttr::get(from->getContext(),
                                     shardings.getValue().take_front(
                                         to->getNumResults())));
}

namespace {
/// GELU whose slope nothing reads.
struct DropUnusedSlope : OpRewritePattern<GeluWithSlopeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GeluWithSlopeOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getSlope().use_empty())
      return rewriter.notifyMatchFailure(op, "the slope is used");
    auto gelu =
        GeluOp::create(rewriter, op.getLoc(), op.getInput(), op.getExact());
    copyAnnotations(op, gelu);
    rewriter.replaceAllUsesWith(op.getResult(), gelu.getResult());
    rewriter.eraseOp(op);
    return success();
  }
};

/// Head and loss whose gradients nothing reads.
struct DropUnusedHeadGradients : OpRewritePattern<HeadLossGradOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(HeadLossGradOp op,
                                PatternRewriter &rewriter) const override {
    if (llvm::any_of(op.getResults().drop_front(2),
                     [](Value gradient) { return !gradient.use_empty(); }))
      return rewriter.notifyMatchFailure(op, "a gradient is used");
    auto loss = HeadLossOp::create(
        rewriter, op.getLoc(),
        TypeRange{op.getLossSum().getType(), op.getRealCount().getType()},
        op.getH(), op.getTable(), op.getTargets(), op.getBias(),
        op.getChunkAttr());
    copyAnnotations(op, loss);
    rewriter.replaceAllUsesWith(op.getLossSum(), loss.getLossSum());
    rewriter.replaceAllUsesWith(op.getRealCount(), loss.getRealCount());
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void GeluWithSlopeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                  MLIRContext *context) {
  patterns.add<DropUnusedSlope>(context);
}

void HeadLossGradOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                 MLIRContext *context) {
  patterns.add<DropUnusedHeadGradients>(context);
}
