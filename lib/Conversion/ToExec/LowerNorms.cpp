//===- LowerNorms.cpp - Normalisation ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/NormKernels.h"
#include "optimus/Kernels/RmsNormKernels.h"

using namespace mlir;
using namespace mlir::optimus;

/// The number of this rank's columns that are no padding.
static Value createRealColumns(Value x, Lowering &lowering) {
  auto type = cast<RankedTensorType>(x.getType());
  return lowering.createRealExtent(type, type.getRank() - 1);
}

namespace {
struct LayerNormLowering : KernelModel<LayerNormLowering, LayerNormOp> {
  Kernel getKernel(LayerNormOp op) const {
    return kernels::LayerNorm{.rows = getNumRows(op.getX()),
                              .n = getLastDim(op.getX()),
                              .epsilon = op.getEpsilon().convertToDouble()};
  }
};

/// Its kernel makes the gradient of x; another before it those of the
/// parameters, since the former may replace dy or x.
struct LayerNormGradLowering
    : KernelModel<LayerNormGradLowering, LayerNormGradOp> {
  Kernel getKernel(LayerNormGradOp op) const {
    return kernels::LayerNormGrad{.rows = getNumRows(op.getX()),
                                  .n = getLastDim(op.getX()),
                                  .residual = bool(op.getResidual())};
  }
  void lower(LayerNormGradOp op, Lowering &lowering) const {
    lowering.launch(kernels::NormParamGrad{.rows = getNumRows(op.getX()),
                                           .n = getLastDim(op.getX())},
                    {{"dy", lowering.getBuffer(op.getDy())},
                     {"x", lowering.getBuffer(op.getX())},
                     {"mean", lowering.getBuffer(op.getMean())},
                     {"rstd", lowering.getBuffer(op.getRstd())},
                     {"dgamma", lowering.getBuffer(op.getDgamma())},
                     {"dbeta", lowering.getBuffer(op.getDbeta())}});
    KernelModel::lower(op, lowering);
  }
};

struct RowMomentsLowering : KernelModel<RowMomentsLowering, RowMomentsOp> {
  Kernel getKernel(RowMomentsOp op) const {
    return kernels::RowMoments{.rows = getNumRows(op.getX()),
                               .n = getLastDim(op.getX())};
  }
  Value getScalars(RowMomentsOp op, Lowering &lowering) const {
    return createRealColumns(op.getX(), lowering);
  }
};

struct MergeMomentsLowering
    : KernelModel<MergeMomentsLowering, MergeMomentsOp> {
  Kernel getKernel(MergeMomentsOp op) const {
    return kernels::MergeMoments{.rows = getNumRows(op.getMoments()),
                                 .counts = SmallVector<int64_t>(op.getCounts()),
                                 .epsilon = op.getEpsilon().convertToDouble()};
  }
};

struct NormalizeLowering : KernelModel<NormalizeLowering, NormalizeOp> {
  Kernel getKernel(NormalizeOp op) const {
    return kernels::Normalize{.rows = getNumRows(op.getX()),
                              .n = getLastDim(op.getX())};
  }
};

struct NormGradSumsLowering
    : KernelModel<NormGradSumsLowering, NormGradSumsOp> {
  Kernel getKernel(NormGradSumsOp op) const {
    return kernels::NormGradSums{.rows = getNumRows(op.getX()),
                                 .n = getLastDim(op.getX())};
  }
};

struct NormGradApplyLowering
    : KernelModel<NormGradApplyLowering, NormGradApplyOp> {
  Kernel getKernel(NormGradApplyOp op) const {
    return kernels::NormGradApply{.rows = getNumRows(op.getX()),
                                  .n = getLastDim(op.getX()),
                                  .size = static_cast<int64_t>(op.getSize()),
                                  .residual = bool(op.getResidual())};
  }
  Value getScalars(NormGradApplyOp op, Lowering &lowering) const {
    return createRealColumns(op.getX(), lowering);
  }
};

struct NormParamGradLowering
    : KernelModel<NormParamGradLowering, NormParamGradOp> {
  Kernel getKernel(NormParamGradOp op) const {
    return kernels::NormParamGrad{.rows = getNumRows(op.getX()),
                                  .n = getLastDim(op.getX())};
  }
};

struct RmsNormLowering : KernelModel<RmsNormLowering, RmsNormOp> {
  Kernel getKernel(RmsNormOp op) const {
    return kernels::RmsNorm{.rows = getNumRows(op.getX()),
                            .n = getLastDim(op.getX()),
                            .epsilon = op.getEpsilon().convertToDouble()};
  }
};

/// As the gradient of layer normalisation.
struct RmsNormGradLowering : KernelModel<RmsNormGradLowering, RmsNormGradOp> {
  Kernel getKernel(RmsNormGradOp op) const {
    int64_t n = getLastDim(op.getX());
    return kernels::RmsNormGrad{
        .rows = getNumRows(op.getX()),
        .n = n,
        .size = static_cast<int64_t>(op.getSize().value_or(n)),
        .sums = bool(op.getSums()),
        .residual = bool(op.getResidual())};
  }
  void lower(RmsNormGradOp op, Lowering &lowering) const {
    lowering.launch(kernels::RmsParamGrad{.rows = getNumRows(op.getX()),
                                          .n = getLastDim(op.getX())},
                    {{"dy", lowering.getBuffer(op.getDy())},
                     {"x", lowering.getBuffer(op.getX())},
                     {"rstd", lowering.getBuffer(op.getRstd())},
                     {"dgamma", lowering.getBuffer(op.getDgamma())}});
    KernelModel::lower(op, lowering);
  }
};

struct RowDotLowering : KernelModel<RowDotLowering, RowDotOp> {
  Kernel getKernel(RowDotOp op) const {
    return kernels::RowDot{.rows = getNumRows(op.getA()),
                           .n = getLastDim(op.getA()),
                           .weight = bool(op.getWeight())};
  }
};

struct RmsRstdLowering : KernelModel<RmsRstdLowering, RmsRstdOp> {
  Kernel getKernel(RmsRstdOp op) const {
    return kernels::RmsRstd{.rows = getNumElements(op.getRstd()),
                            .size = static_cast<int64_t>(op.getSize()),
                            .epsilon = op.getEpsilon().convertToDouble()};
  }
};

struct RmsScaleLowering : KernelModel<RmsScaleLowering, RmsScaleOp> {
  Kernel getKernel(RmsScaleOp op) const {
    return kernels::RmsScale{.rows = getNumRows(op.getX()),
                             .n = getLastDim(op.getX())};
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
