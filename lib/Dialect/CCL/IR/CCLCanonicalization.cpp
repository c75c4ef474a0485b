//===- CCLCanonicalization.cpp - Fewer and cheaper collectives --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program serves all ranks: an operation removed here is removed on all of
// them at once, and the other collectives keep their order.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::ccl;

// Each rank gives its part of a tensor known to all of them.
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  auto slice = getInput().getDefiningOp<SliceOp>();
  if (!slice || slice.getAxis() != getAxis() || slice.getDim() != getDim() ||
      slice.getInput().getType() != getResult().getType())
    return {};
  return slice.getInput();
}

namespace {
/// Each rank cuts out the part that it gave. A gather that nothing else reads
/// goes too; dead-code elimination would leave it, for its effect.
struct SliceOfAllGather : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto gather = op.getInput().getDefiningOp<AllGatherOp>();
    if (!gather || gather.getAxis() != op.getAxis() ||
        gather.getDim() != op.getDim() ||
        gather.getInput().getType() != op.getResult().getType())
      return rewriter.notifyMatchFailure(op, "does not undo an all_gather");
    rewriter.replaceOp(op, gather.getInput());
    if (gather.getResult().use_empty())
      rewriter.eraseOp(gather);
    return success();
  }
};

/// A sum of which each rank reads its own part only.
struct SliceOfAllReduce : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto reduce = op.getInput().getDefiningOp<AllReduceOp>();
    if (!reduce || reduce.getAxis() != op.getAxis() ||
        !reduce.getResult().hasOneUse())
      return rewriter.notifyMatchFailure(op, "is not all that reads a sum");
    // Where the sum was, so that collectives keep their order.
    rewriter.setInsertionPoint(reduce);
    auto scatter = ReduceScatterOp::create(
        rewriter, reduce.getLoc(), op.getResult().getType(), reduce.getInput(),
        op.getAxisAttr(), op.getDimAttr());
    rewriter.replaceOp(op, scatter.getResult());
    rewriter.eraseOp(reduce);
    return success();
  }
};
} // namespace

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                          MLIRContext *context) {
  patterns.add<SliceOfAllGather, SliceOfAllReduce>(context);
}
