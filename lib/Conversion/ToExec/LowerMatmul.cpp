//===- LowerMatmul.cpp - Local products of matrices -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

/// The product of some dimensions of a tensor.
static int64_t getExtent(Value tensor, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t dim : dims)
    extent *= cast<RankedTensorType>(tensor.getType()).getDimSize(dim);
  return extent;
}

/// Puts the residual where the product is accumulated.
static void copyResidual(Value residual, Value result, Lowering &lowering) {
  if (residual.getType() == result.getType())
    lowering.copy(residual, result);
  else
    lowering.convert(residual, result);
}

static void lowerMatmul(MatmulOp op, Lowering &lowering) {
  int64_t m = getExtent(op.getA(), op.getMDimsOfA());
  int64_t k = getExtent(op.getA(), op.getKDimsOfA());
  int64_t n = getExtent(op.getB(), op.getNDimsOfB());
  Value result = lowering.getBuffer(op.getResult());
  Gemm gemm{
      m,        n,
      k,        {lowering.getBuffer(op.getA()), op.getTransposeA() ? m : k},
      /*b=*/{}, {result, n}};
  gemm.transA = op.getTransposeA();
  gemm.transB = op.getTransposeB();
  lowering.setB(gemm, op.getB(), op.getTransposeB() ? k : n);
  if (!op.getTransposeA())
    gemm.live = lowering.getLive(op.getA());
  if (op.getBias())
    gemm.bias = lowering.getBuffer(op.getBias());
  if (Value scale = op.getScale()) {
    gemm.epilogue = exec::Epilogue::Mul;
    gemm.extra = {lowering.getBuffer(scale), n};
  }
  if (Value residual = op.getResidual()) {
    if (lowering.shareBuffer(residual, op.getResult())) {
      gemm.accumulate = true;
    } else if (op.getScale()) {
      copyResidual(lowering.getBuffer(residual), result, lowering);
      gemm.accumulate = true;
    } else {
      gemm.epilogue = exec::Epilogue::Add;
      gemm.extra = {lowering.getBuffer(residual), n};
    }
  }
  lowering.gemm(gemm);
}

namespace {
struct MatmulLowering : LoweringModel<MatmulLowering, MatmulOp> {
  /// The residual is where a product begins to accumulate.
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned) const {
    auto matmul = cast<MatmulOp>(op);
    if (!matmul.getResidual())
      return {};
    return {matmul.getResidualMutable().begin()->getOperandNumber()};
  }
  void lower(MatmulOp op, Lowering &lowering) const {
    lowerMatmul(op, lowering);
  }
};
} // namespace

void mlir::optimus::attachMatmulLowering(MLIRContext &context) {
  attachModels<MatmulLowering>(context);
}
