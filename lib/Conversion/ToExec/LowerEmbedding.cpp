//===- LowerEmbedding.cpp - Tables of rows by token -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
struct EmbeddingLowering : LoweringModel<EmbeddingLowering, EmbeddingOp> {
  void lower(EmbeddingOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().embedding(
                        getNumElements(op.getTokens()),
                        getNumRows(op.getTable()), getLastDim(op.getTable())),
                    op, lowering.createPartOffset(op.getTable().getType(), 0));
  }
};

struct EmbeddingGradLowering
    : LoweringModel<EmbeddingGradLowering, EmbeddingGradOp> {
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned) const {
    auto grad = cast<EmbeddingGradOp>(op);
    if (!grad.getAccumulate())
      return {};
    return {grad.getAccumulateMutable().begin()->getOperandNumber()};
  }
  void lower(EmbeddingGradOp op, Lowering &lowering) const {
    Value accumulate = op.getAccumulate();
    Value result = lowering.getBuffer(op.getResult());
    if (accumulate && !lowering.shareBuffer(accumulate, op.getResult()))
      lowering.copy(lowering.getBuffer(accumulate), result);
    lowering.launch(lowering.getKernels().embeddingGrad(
                        getNumElements(op.getTokens()),
                        getNumRows(op.getResult()), getLastDim(op.getResult()),
                        /*zero=*/!accumulate, op.getPad()),
                    {lowering.in(op.getDy()), lowering.in(op.getTokens()),
                     accumulate ? update(result) : write(result)},
                    lowering.createPartOffset(op.getResult().getType(), 0));
  }
};

struct LengthsLowering : LoweringModel<LengthsLowering, LengthsOp> {
  void lower(LengthsOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().lengths(
                        getNumRows(op.getTokens()), getLastDim(op.getTokens()),
                        op.getPadAttr().getInt(), bool(op.getTargets())),
                    op, lowering.createRealExtent(op.getTokens().getType(), 1));
  }
};

struct RowLowering : LoweringModel<RowLowering, RowOp> {
  void lower(RowOp op, Lowering &lowering) const {
    int64_t cols = getLastDim(op.getTable());
    lowering.copy(lowering.slice(lowering.getBuffer(op.getTable()),
                                 op.getIndex() * cols, cols),
                  lowering.getBuffer(op.getResult()));
  }
};

struct RowGradLowering : LoweringModel<RowGradLowering, RowGradOp> {
  void lower(RowGradOp op, Lowering &lowering) const {
    int64_t cols = getLastDim(op.getResult());
    int64_t extent = getNumElements(op.getResult());
    Value result = lowering.getBuffer(op.getResult());
    lowering.copy({}, {result, extent}, /*rows=*/1, extent);
    lowering.copy(lowering.getBuffer(op.getDy()),
                  lowering.slice(result, op.getIndex() * cols, cols));
  }
};
} // namespace

void mlir::optimus::attachEmbeddingLowerings(MLIRContext &context) {
  attachModels<EmbeddingLowering, EmbeddingGradLowering, LengthsLowering,
               RowLowering, RowGradLowering>(context);
}
