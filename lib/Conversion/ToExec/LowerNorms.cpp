//===- LowerNorms.cpp - Normalisation ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/NormKernels.h"

using namespace mlir;
using namespace mlir::optimus;

/// A kernel of the rows of x: what it has beside their number and extent, the
/// operation says.
template <typename KernelT, typename OpT>
static KernelT makeRowKernel(OpT op) {
  KernelT kernel{};
  kernel.rows = getNumRows(op.getX());
  kernel.n = getLastDim(op.getX());
  if constexpr (requires { kernel.epsilon; })
    kernel.epsilon = op.getEpsilon().convertToDouble();
  if constexpr (requires { kernel.residual; })
    kernel.residual = bool(op.getResidual());
  if constexpr (requires { kernel.sums; })
    kernel.sums = bool(op.getSums());
  if constexpr (requires { kernel.size; })
    kernel.size = std::optional<uint64_t>(op.getSize()).value_or(kernel.n);
  return kernel;
}

namespace {
template <typename OpT, typename KernelT>
struct RowLowering : KernelModel<RowLowering<OpT, KernelT>, OpT> {
  Kernel getKernel(OpT op) const { return makeRowKernel<KernelT>(op); }
};

/// The kernel is told how many of this rank's columns are no padding.
template <typename OpT, typename KernelT>
struct RealRowLowering : KernelModel<RealRowLowering<OpT, KernelT>, OpT> {
  Kernel getKernel(OpT op) const { return makeRowKernel<KernelT>(op); }
  Value getScalars(OpT op, Lowering &lowering) const {
    auto type = cast<RankedTensorType>(op.getX().getType());
    return lowering.createRealExtent(type, type.getRank() - 1);
  }
};

/// The kernel makes the gradient of x; another before it those of the
/// parameters, unless they are frozen, since the former may replace dy or x.
template <typename OpT, typename KernelT, bool centered>
struct NormGradLowering
    : KernelModel<NormGradLowering<OpT, KernelT, centered>, OpT> {
  Kernel getKernel(OpT op) const { return makeRowKernel<KernelT>(op); }
  void lower(OpT op, Lowering &lowering) const {
    if (llvm::any_of(op->getResults().drop_front(),
                     [](Value gradient) { return !gradient.use_empty(); }))
      lowerParameters(op, lowering);
    KernelModel<NormGradLowering, OpT>::lower(op, lowering);
  }

private:
  static void lowerParameters(OpT op, Lowering &lowering) {
    SmallVector<NamedBuffer> buffers = {
        {"dy", lowering.getBuffer(op.getDy())},
        {"x", lowering.getBuffer(op.getX())},
        {"rstd", lowering.getBuffer(op.getRstd())},
        {"dgamma", lowering.getBuffer(op.getDgamma())}};
    if constexpr (centered)
      buffers.append({{"mean", lowering.getBuffer(op.getMean())},
                      {"dbeta", lowering.getBuffer(op.getDbeta())}});
    lowering.launch(makeRowKernel<kernels::ParamGrad<centered>>(op), buffers);
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

} // namespace

void mlir::optimus::attachNormLowerings(MLIRContext &context) {
  attachModels<RowLowering<LayerNormOp, kernels::LayerNorm>,
               RowLowering<RmsNormOp, kernels::RmsNorm>,
               RowLowering<NormalizeOp, kernels::Normalize>,
               RowLowering<RmsScaleOp, kernels::RmsScale>,
               RowLowering<NormParamGradOp, kernels::NormParamGrad>,
               RowLowering<NormGradSumsOp, kernels::NormGradSums>,
               RealRowLowering<NormGradApplyOp, kernels::NormGradApply>,
               RealRowLowering<RowMomentsOp, kernels::RowMoments>,
               NormGradLowering<LayerNormGradOp, kernels::LayerNormGrad, true>,
               NormGradLowering<RmsNormGradOp, kernels::RmsNormGrad, false>,
               MergeMomentsLowering, RowDotLowering, RmsRstdLowering>(context);
}
