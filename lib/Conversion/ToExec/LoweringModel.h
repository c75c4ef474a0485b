//===- LoweringModel.h - How operations get their lowering ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERINGMODEL_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERINGMODEL_H

#include "Lowering.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"

namespace mlir::optimus {

using InPlaceOperands = SmallVector<unsigned>;

/// What the lowering `Model` of an operation derives from. It has
/// `lower(OpT, Lowering &)`, which may return nothing where it cannot fail.
template <typename Model, typename OpT>
struct LoweringModel : ExecLoweringOpInterface::ExternalModel<Model, OpT> {
  static void attach(MLIRContext &context) {
    OpT::template attachInterface<Model>(context);
  }

  LogicalResult lowerToExec(Operation *op, Lowering &lowering) const {
    const auto &model = static_cast<const Model &>(*this);
    auto concrete = cast<OpT>(op);
    if constexpr (std::is_void_v<decltype(model.lower(concrete, lowering))>) {
      model.lower(concrete, lowering);
      return success();
    } else {
      return model.lower(concrete, lowering);
    }
  }
};

/// The operands of `op` that a result may be in place of, where a kernel's
/// operands are those of `op` and then its results.
InPlaceOperands getPlaces(const Kernel &kernel, Operation *op, unsigned result);

/// What the lowering of an operation to one kernel derives from. It has
/// `getKernel(OpT)`, and `getScalars(OpT, Lowering &)` if the kernel has any.
template <typename Model, typename OpT>
struct KernelModel : LoweringModel<Model, OpT> {
  void lower(OpT op, Lowering &lowering) const {
    const auto &model = static_cast<const Model &>(*this);
    if constexpr (requires { model.getScalars(op, lowering); })
      lowering.launch(model.getKernel(op), op, model.getScalars(op, lowering));
    else
      lowering.launch(model.getKernel(op), op);
  }
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned result) const {
    return getPlaces(static_cast<const Model &>(*this).getKernel(cast<OpT>(op)),
                     op, result);
  }
};

template <typename... Models>
void attachModels(MLIRContext &context) {
  (Models::attach(context), ...);
}

// The models of each family.

void attachAttentionLowerings(MLIRContext &context);
void attachCollectiveLowerings(MLIRContext &context);
void attachEmbeddingLowerings(MLIRContext &context);
void attachLocalLossLowerings(MLIRContext &context);
void attachDistributedLossLowerings(MLIRContext &context);
void attachMatmulLowering(MLIRContext &context);
void attachPanelLowering(MLIRContext &context);
void attachNormLowerings(MLIRContext &context);
void attachOptimizerLowerings(MLIRContext &context);
void attachFusionSlots(MLIRContext &context);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERINGMODEL_H
