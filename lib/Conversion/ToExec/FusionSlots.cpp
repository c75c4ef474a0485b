//===- FusionSlots.cpp - What operations have room for ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static Type getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Whether `part`, when it takes in what it goes into, keeps its element type.
static bool keepsElements(Operation *op, OpResult part) {
  return getElements(part) == getElements(op->getResult(0));
}

namespace {
struct SumFusion : AbsorbableOpInterface::ExternalModel<SumFusion, AddOp> {
  std::optional<FusionSlot> getSlotIn(Operation *op, FusibleOpInterface maker,
                                      OpResult part, Value other) const {
    if (!keepsElements(op, part))
      return std::nullopt;
    return maker.getAddendSlot(part, other);
  }
};

struct ProductFusion
    : AbsorbableOpInterface::ExternalModel<ProductFusion, MulOp> {
  std::optional<FusionSlot> getSlotIn(Operation *op, FusibleOpInterface maker,
                                      OpResult part, Value other) const {
    if (!keepsElements(op, part))
      return std::nullopt;
    return maker.getFactorSlot(part, other);
  }
};

struct MatmulFusion
    : FusibleOpInterface::ExternalModel<MatmulFusion, MatmulOp> {
  std::optional<FusionSlot> getAddendSlot(Operation *op, OpResult result,
                                          Value addend) const {
    auto matmul = cast<MatmulOp>(op);
    if (matmul.getScale())
      return std::nullopt;
    ArrayRef<int64_t> shape = getShape(result), other = getShape(addend);
    if (other == shape.take_back(matmul.getNumN()) && matmul.getNumM() > 0 &&
        !matmul.getBias())
      return FusionSlot{FusionSlot::Bias, matmul.getBiasMutable()};
    if (other == shape && !matmul.getResidual())
      return FusionSlot{FusionSlot::Residual, matmul.getResidualMutable()};
    return std::nullopt;
  }

  std::optional<FusionSlot> getFactorSlot(Operation *op, OpResult result,
                                          Value factor) const {
    auto matmul = cast<MatmulOp>(op);
    // No device adds and multiplies behind one product.
    if (matmul.getScale() || matmul.getResidual() ||
        getShape(factor) != getShape(result))
      return std::nullopt;
    return FusionSlot{FusionSlot::Scale, matmul.getScaleMutable()};
  }
};

/// The gradient of a norm's x can be added to that of the residual beside it.
template <typename OpT>
struct NormGradFusion
    : FusibleOpInterface::ExternalModel<NormGradFusion<OpT>, OpT> {
  std::optional<FusionSlot> getAddendSlot(Operation *op, OpResult result,
                                          Value addend) const {
    auto grad = cast<OpT>(op);
    if (result != grad.getDx() || grad.getResidual() ||
        getShape(addend) != getShape(result))
      return std::nullopt;
    return FusionSlot{FusionSlot::Residual, grad.getResidualMutable()};
  }
};
} // namespace

template <typename... OpTs>
static void attachNormGradFusions(MLIRContext &context) {
  (OpTs::template attachInterface<NormGradFusion<OpTs>>(context), ...);
}

void mlir::optimus::attachFusionSlots(MLIRContext &context) {
  AddOp::attachInterface<SumFusion>(context);
  MulOp::attachInterface<ProductFusion>(context);
  MatmulOp::attachInterface<MatmulFusion>(context);
  attachNormGradFusions<LayerNormGradOp, NormGradApplyOp, RmsNormGradOp>(
      context);
}
