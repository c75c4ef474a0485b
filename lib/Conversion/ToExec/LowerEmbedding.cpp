//===- LowerEmbedding.cpp - Tables of rows by token -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/TokenKernels.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// With weights of few bits, rows of the blocks that the head reads.
struct EmbeddingLowering : KernelModel<EmbeddingLowering, EmbeddingOp> {
  void lower(EmbeddingOp op, Lowering &lowering) const {
    const HeldWeights &weights = lowering.getWeights();
    Value table = op.getTable();
    if (!weights.isTableOfBlocks(table))
      return KernelModel::lower(op, lowering);
    const int64_t rows = getNumRows(table), cols = getLastDim(table);
    const kernels::EmbeddingOfBlocks kernel{
        .count = getNumElements(op.getTokens()),
        .rows = rows,
        .cols = cols,
        .bits = weights.getFewBits() == exec::Blocks::Int8 ? 8 : 4};
    lowering.launch(
        kernel,
        {{"table",
          lowering.getBlocks(weights.getFewBits(), lowering.getBuffer(table),
                             /*k=*/cols, /*n=*/rows, /*ld=*/cols,
                             /*trans=*/true)},
         {"tokens", lowering.getBuffer(op.getTokens())},
         {"result", lowering.getBuffer(op.getResult())}},
        getScalars(op, lowering));
  }
  Kernel getKernel(EmbeddingOp op) const {
    return kernels::Embedding{.count = getNumElements(op.getTokens()),
                              .rows = getNumRows(op.getTable()),
                              .cols = getLastDim(op.getTable())};
  }
  Value getScalars(EmbeddingOp op, Lowering &lowering) const {
    return lowering.createPartOffset(op.getTable().getType(), 0);
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
    lowering.launch(
        kernels::EmbeddingGrad{.count = getNumElements(op.getTokens()),
                               .rows = getNumRows(op.getResult()),
                               .cols = getLastDim(op.getResult()),
                               .zero = !accumulate,
                               .pad = op.getPad(),
                               .byRows =
                                   lowering.getTarget().addsEmbeddingsByRows()},
        {{"dy", lowering.getBuffer(op.getDy())},
         {"tokens", lowering.getBuffer(op.getTokens())},
         {"table", result}},
        lowering.createPartOffset(op.getResult().getType(), 0));
  }
};

struct LengthsLowering : KernelModel<LengthsLowering, LengthsOp> {
  Kernel getKernel(LengthsOp op) const {
    return kernels::Lengths{.rows = getNumRows(op.getTokens()),
                            .cols = getLastDim(op.getTokens()),
                            .pad = op.getPadAttr().getInt(),
                            .masked = bool(op.getTargets())};
  }
  Value getScalars(LengthsOp op, Lowering &lowering) const {
    return lowering.createRealExtent(op.getTokens().getType(), 1);
  }
};

struct TableRowLowering : LoweringModel<TableRowLowering, RowOp> {
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
               TableRowLowering, RowGradLowering>(context);
}
