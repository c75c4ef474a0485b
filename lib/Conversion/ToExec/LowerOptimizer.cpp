//===- LowerOptimizer.cpp - Norms of gradients, clipping --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/OptimizerKernels.h"

using namespace mlir;
using namespace mlir::optimus;

/// Sums of squares of blocks of each operand, then their sum, all in f64.
static void lowerSumSquares(Operation *op, Value sum, Lowering &lowering) {
  int64_t numPartials = 0;
  for (Value operand : op->getOperands())
    numPartials += kernels::getNumPartials(getNumElements(operand));
  Value partials = lowering.allocateWorkspace(
      numPartials, lowering.builder.getF64Type(), "partial sums");
  int64_t offset = 0;
  for (Value operand : op->getOperands()) {
    int64_t extent = getNumElements(operand);
    int64_t count = kernels::getNumPartials(extent);
    lowering.launch(kernels::SumSquares{extent},
                    {{"x", lowering.getBuffer(operand)},
                     {"partials", lowering.slice(partials, offset, count)}});
    offset += count;
  }
  lowering.launch(kernels::SumPartials{numPartials},
                  {{"partials", partials}, {"sum", lowering.getBuffer(sum)}});
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
    lowering.launch(kernels::elementwise<SqrtOp>(lowering.getContext(), 1),
                    {{"operand0", norm}, {"result0", norm}});
  }
};

struct ClipLowering : KernelModel<ClipLowering, ClipOp> {
  Kernel getKernel(ClipOp) const { return kernels::Clip{}; }
};
} // namespace

void mlir::optimus::attachOptimizerLowerings(MLIRContext &context) {
  attachModels<SumSquaresLowering, GlobalNormLowering, ClipLowering>(context);
}
