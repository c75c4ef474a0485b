//===- LowerAttention.cpp - Attention and position embedding ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Kernels/TokenKernels.h"

using namespace mlir;
using namespace mlir::optimus;

/// The buffer of q, k or v, from the first element of that part on.
static Value getPart(ValueRange tensors, const AttentionShape &shape,
                     AttentionShape::Part part, Lowering &lowering) {
  Value tensor = tensors[shape.getOperand(part)];
  int64_t offset = shape.getOffset(part);
  return lowering.slice(lowering.getBuffer(tensor), offset,
                        getNumElements(tensor) - offset);
}

static Value getLengths(Value lengths, Lowering &lowering) {
  return lengths ? lowering.getBuffer(lengths) : Value();
}

namespace {
struct AttentionLowering : LoweringModel<AttentionLowering, AttentionOp> {
  void lower(AttentionOp op, Lowering &lowering) const {
    AttentionShape shape(op.getInputs());
    exec::AttentionOp::create(
        lowering.builder, lowering.location,
        getPart(op.getInputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getInputs(), shape, AttentionShape::K, lowering),
        getPart(op.getInputs(), shape, AttentionShape::V, lowering),
        lowering.getBuffer(op.getResult()), lowering.getBuffer(op.getLse()),
        getLengths(op.getLengths(), lowering), shape.batch, shape.sequence,
        shape.getNumHeads(), shape.groups, shape.headDim,
        shape.getStride(AttentionShape::Q), shape.getStride(AttentionShape::K),
        op.getCausal(), /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }
};

struct AttentionGradLowering
    : LoweringModel<AttentionGradLowering, AttentionGradOp> {
  void lower(AttentionGradOp op, Lowering &lowering) const {
    AttentionShape shape(op.getInputs());
    exec::AttentionGradOp::create(
        lowering.builder, lowering.location, lowering.getBuffer(op.getDout()),
        getPart(op.getInputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getInputs(), shape, AttentionShape::K, lowering),
        getPart(op.getInputs(), shape, AttentionShape::V, lowering),
        lowering.getBuffer(op.getOut()), lowering.getBuffer(op.getLse()),
        getPart(op.getDinputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getDinputs(), shape, AttentionShape::K, lowering),
        getPart(op.getDinputs(), shape, AttentionShape::V, lowering),
        getLengths(op.getLengths(), lowering), shape.batch, shape.sequence,
        shape.getNumHeads(), shape.groups, shape.headDim,
        shape.getStride(AttentionShape::Q), shape.getStride(AttentionShape::K),
        op.getCausal(), /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }
};

struct RotaryLowering : KernelModel<RotaryLowering, RotaryOp> {
  Kernel getKernel(RotaryOp op) const {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(op.getX().getType()).getShape();
    return kernels::Rotary{.batch = shape[0],
                           .seq = shape[1],
                           .heads =
                               getNumRows(op.getX()) / (shape[0] * shape[1]),
                           .dim = shape.back(),
                           .theta = op.getTheta().convertToDouble(),
                           .inverse = op.getInverse(),
                           .channels = op.getNumRotated(),
                           .turned = op.getNumRotatedHeads()};
  }
};
} // namespace

void mlir::optimus::attachAttentionLowerings(MLIRContext &context) {
  attachModels<AttentionLowering, AttentionGradLowering, RotaryLowering>(
      context);
}
