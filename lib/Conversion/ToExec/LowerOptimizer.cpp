//===- LowerOptimizer.cpp - Norms of gradients, and steps -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

/// Sums of squares of blocks of each operand, then their sum, all in f64.
static void lowerSumSquares(Operation *op, Value sum, Lowering &lowering) {
  KernelLibrary &kernels = lowering.getKernels();
  int64_t numPartials = 0;
  for (Value operand : op->getOperands())
    numPartials += kernels.getNumPartials(getNumElements(operand));
  Value partials = lowering.allocateWorkspace(
      numPartials, lowering.builder.getF64Type(), "partial sums");
  int64_t offset = 0;
  for (Value operand : op->getOperands()) {
    int64_t extent = getNumElements(operand);
    int64_t count = kernels.getNumPartials(extent);
    lowering.launch(
        kernels.sumSquares(extent),
        {lowering.in(operand), write(lowering.slice(partials, offset, count))});
    offset += count;
  }
  lowering.launch(kernels.sumPartials(numPartials),
                  {read(partials), lowering.out(sum)});
}

namespace {
struct SumSquaresLowering : LoweringModel<SumSquaresLowering, SumSquaresOp> {
  void lower(SumSquaresOp op, Lowering &lowering) const {
    lowerSumSquares(op, op.getSum(), lowering);
  }
};

struct GlobalNormLowering : LoweringModel<GlobalNormLowering, GlobalNormOp> {
  void lower(GlobalNormOp op, Lowering &lowering) const {
    lowerSumSquares(op, op.getNorm(), lowering);
    Value norm = lowering.getBuffer(op.getNorm());
    lowering.launch(lowering.getKernels().sqrt(1), {read(norm), write(norm)});
  }
};

struct ClipLowering : LoweringModel<ClipLowering, ClipOp> {
  void lower(ClipOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().clip(), op);
  }
};

struct AdamWLowering : LoweringModel<AdamWLowering, AdamWOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    constexpr unsigned sources[] = {0, 2, 3};
    return {sources[result]};
  }
  void lower(AdamWOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().adamw(getNumElements(op.getParam()),
                                                op.getDecay()),
                    op);
  }
};

struct SgdLowering : LoweringModel<SgdLowering, SgdOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    constexpr unsigned sources[] = {0, 2};
    return {sources[result]};
  }
  void lower(SgdOp op, Lowering &lowering) const {
    lowering.launch(
        lowering.getKernels().sgd(getNumElements(op.getParam()), op.getDecay()),
        op);
  }
};

struct LambDirectionLowering
    : LoweringModel<LambDirectionLowering, LambDirectionOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    constexpr unsigned sources[] = {1, 2, 3};
    return {sources[result]};
  }
  void lower(LambDirectionOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().lambDirection(
                        getNumElements(op.getParam()), op.getDecay()),
                    op);
  }
};

struct LambUpdateLowering : LoweringModel<LambUpdateLowering, LambUpdateOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0, 1};
  }
  void lower(LambUpdateOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().lambUpdate(
                        getNumElements(op.getParam()), !op.getNorms().empty()),
                    op);
  }
};
} // namespace

void mlir::optimus::attachOptimizerLowerings(MLIRContext &context) {
  attachModels<SumSquaresLowering, GlobalNormLowering, ClipLowering,
               AdamWLowering, SgdLowering, LambDirectionLowering,
               LambUpdateLowering>(context);
}
