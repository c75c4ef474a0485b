//===- LowerNorms.cpp - Normalisation ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

/// The gradient of x may replace dy, x and what is added to it.
template <typename OpT>
static InPlaceOperands getPlacesOfGradient(OpT op) {
  InPlaceOperands operands = {0, 1};
  if (op.getResidual())
    operands.push_back(op.getResidualMutable().begin()->getOperandNumber());
  return operands;
}

/// The number of this rank's columns that are no padding.
static Value createRealColumns(Value x, Lowering &lowering) {
  auto type = cast<RankedTensorType>(x.getType());
  return lowering.createRealExtent(type, type.getRank() - 1);
}

/// Launches the kernel for the gradient of x, which does not make those of the
/// parameters.
static void launchGradient(const KernelLaunch &kernel, Operation *op, Value dx,
                           Lowering &lowering) {
  SmallVector<KernelBuffer> buffers;
  for (Value operand : op->getOperands())
    buffers.push_back(lowering.in(operand));
  buffers.push_back(lowering.out(dx));
  lowering.launch(kernel, buffers);
}

namespace {
struct LayerNormLowering : LoweringModel<LayerNormLowering, LayerNormOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    return result == 0 ? InPlaceOperands{0} : InPlaceOperands{};
  }
  void lower(LayerNormOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().layerNorm(
                        getNumRows(op.getX()), getLastDim(op.getX()),
                        op.getEpsilon().convertToDouble()),
                    op);
  }
};

struct LayerNormGradLowering
    : LoweringModel<LayerNormGradLowering, LayerNormGradOp> {
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned result) const {
    return result == 0 ? getPlacesOfGradient(cast<LayerNormGradOp>(op))
                       : InPlaceOperands{};
  }
  void lower(LayerNormGradOp op, Lowering &lowering) const {
    int64_t rows = getNumRows(op.getX()), cols = getLastDim(op.getX());
    KernelLibrary &kernels = lowering.getKernels();
    // First the gradients of the parameters: dx may replace dy or x.
    lowering.launch(kernels.normParamGrad(rows, cols),
                    {lowering.in(op.getDy()), lowering.in(op.getX()),
                     lowering.in(op.getMean()), lowering.in(op.getRstd()),
                     lowering.out(op.getDgamma()),
                     lowering.out(op.getDbeta())});
    launchGradient(kernels.layerNormGrad(rows, cols, bool(op.getResidual())),
                   op, op.getDx(), lowering);
  }
};

struct RowMomentsLowering : LoweringModel<RowMomentsLowering, RowMomentsOp> {
  void lower(RowMomentsOp op, Lowering &lowering) const {
    Value real = createRealColumns(op.getX(), lowering);
    lowering.launch(lowering.getKernels().rowMoments(getNumRows(op.getX()),
                                                     getLastDim(op.getX())),
                    op, real);
  }
};

struct MergeMomentsLowering
    : LoweringModel<MergeMomentsLowering, MergeMomentsOp> {
  void lower(MergeMomentsOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().mergeMoments(
                        getNumRows(op.getMoments()), op.getCounts(),
                        op.getEpsilon().convertToDouble()),
                    op);
  }
};

struct NormalizeLowering : LoweringModel<NormalizeLowering, NormalizeOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(NormalizeOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().normalize(getNumRows(op.getX()),
                                                    getLastDim(op.getX())),
                    op);
  }
};

struct NormGradSumsLowering
    : LoweringModel<NormGradSumsLowering, NormGradSumsOp> {
  void lower(NormGradSumsOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().normGradSums(getNumRows(op.getX()),
                                                       getLastDim(op.getX())),
                    op);
  }
};

struct NormGradApplyLowering
    : LoweringModel<NormGradApplyLowering, NormGradApplyOp> {
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned) const {
    return getPlacesOfGradient(cast<NormGradApplyOp>(op));
  }
  void lower(NormGradApplyOp op, Lowering &lowering) const {
    Value real = createRealColumns(op.getX(), lowering);
    lowering.launch(lowering.getKernels().normGradApply(
                        getNumRows(op.getX()), getLastDim(op.getX()),
                        op.getSize(), bool(op.getResidual())),
                    op, real);
  }
};

struct NormParamGradLowering
    : LoweringModel<NormParamGradLowering, NormParamGradOp> {
  void lower(NormParamGradOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().normParamGrad(getNumRows(op.getX()),
                                                        getLastDim(op.getX())),
                    op);
  }
};

struct RmsNormLowering : LoweringModel<RmsNormLowering, RmsNormOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    return result == 0 ? InPlaceOperands{0} : InPlaceOperands{};
  }
  void lower(RmsNormOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().rmsNorm(
                        getNumRows(op.getX()), getLastDim(op.getX()),
                        op.getEpsilon().convertToDouble()),
                    op);
  }
};

struct RmsNormGradLowering : LoweringModel<RmsNormGradLowering, RmsNormGradOp> {
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned result) const {
    return result == 0 ? getPlacesOfGradient(cast<RmsNormGradOp>(op))
                       : InPlaceOperands{};
  }
  void lower(RmsNormGradOp op, Lowering &lowering) const {
    int64_t rows = getNumRows(op.getX()), cols = getLastDim(op.getX());
    KernelLibrary &kernels = lowering.getKernels();
    // First the gradient of the parameter: dx may replace dy or x.
    lowering.launch(kernels.rmsParamGrad(rows, cols),
                    {lowering.in(op.getDy()), lowering.in(op.getX()),
                     lowering.in(op.getRstd()), lowering.out(op.getDgamma())});
    launchGradient(kernels.rmsNormGrad(rows, cols, op.getSize().value_or(cols),
                                       bool(op.getSums()),
                                       bool(op.getResidual())),
                   op, op.getDx(), lowering);
  }
};

struct RowDotLowering : LoweringModel<RowDotLowering, RowDotOp> {
  void lower(RowDotOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().rowDot(getNumRows(op.getA()),
                                                 getLastDim(op.getA()),
                                                 bool(op.getWeight())),
                    op);
  }
};

struct RmsRstdLowering : LoweringModel<RmsRstdLowering, RmsRstdOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(RmsRstdOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().rmsRstd(
                        getNumElements(op.getRstd()), op.getSize(),
                        op.getEpsilon().convertToDouble()),
                    op);
  }
};

struct RmsScaleLowering : LoweringModel<RmsScaleLowering, RmsScaleOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(RmsScaleOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().rmsScale(getNumRows(op.getX()),
                                                   getLastDim(op.getX())),
                    op);
  }
};
} // namespace

void mlir::optimus::attachNormLowerings(MLIRContext &context) {
  attachModels<LayerNormLowering, LayerNormGradLowering, RowMomentsLowering,
               MergeMomentsLowering, NormalizeLowering, NormGradSumsLowering,
               NormGradApplyLowering, NormParamGradLowering, RmsNormLowering,
               RmsNormGradLowering, RowDotLowering, RmsRstdLowering,
               RmsScaleLowering>(context);
}
