//===- Elementwise.cpp - Elementwise operations and constants ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The value of GELU and its derivative.
struct Gelu {
  Gelu(double x, bool exact) {
    if (exact) {
      double below = std::erfc(-x / std::numbers::sqrt2) / 2;
      value = x * below;
      slope = below + x * std::exp(-x * x / 2) /
                          std::sqrt(2 * std::numbers::pi);
      return;
    }
    double root = std::sqrt(2 / std::numbers::pi);
    double t = std::tanh(root * (x + 0.044715 * x * x * x));
    double inner = root * (1 + 3 * 0.044715 * x * x);
    value = x / 2 * (1 + t);
    slope = (1 + t) / 2 + x / 2 * (1 - t * t) * inner;
  }
  double value, slope;
};

struct AddModel : LocalModel<AddModel, AddOp> {
  static LogicalResult run(AddOp op, Frame &frame) {
    const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
    Tensor &result = frame.result(op.getResult());
    for (int64_t i = 0; i < lhs.getNumElements(); ++i)
      result[i] = lhs[i] + rhs[i % rhs.getNumElements()];
    return success();
  }
};

struct MulModel : LocalModel<MulModel, MulOp> {
  static LogicalResult run(MulOp op, Frame &frame) {
    const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
    Tensor &result = frame.result(op.getResult());
    for (int64_t i = 0; i < lhs.getNumElements(); ++i)
      result[i] = lhs[i] * rhs[i % rhs.getNumElements()];
    return success();
  }
};

struct SumLeadingModel : LocalModel<SumLeadingModel, SumLeadingOp> {
  static LogicalResult run(SumLeadingOp op, Frame &frame) {
    const Tensor &input = frame.get(op.getInput());
    Tensor &result = frame.result(op.getResult());
    int64_t leading = input.shape.size() - result.shape.size();
    std::vector<bool> padding = frame.getPadding(op.getInput(), 0, leading);
    int64_t cols = result.getNumElements();
    for (size_t row = 0; row < padding.size(); ++row)
      for (int64_t col = 0; col < cols; ++col) {
        double x = input[row * cols + col];
        if (padding[row] && x != 0)
          return frame.emitError()
                 << "sums over padding that holds " << x << ", in row " << row
                 << "; expected exactly 0";
        result[col] += x;
      }
    return success();
  }
};

struct ReshardModel : LocalModel<ReshardModel, ReshardOp> {
  static LogicalResult run(ReshardOp op, Frame &frame) {
    frame.result(op.getResult()).elements = frame.get(op.getInput()).elements;
    return success();
  }
};

/// Numbers are f64 here, whatever their element types are.
struct CastModel : LocalModel<CastModel, CastOp> {
  static LogicalResult run(CastOp op, Frame &frame) {
    frame.result(op.getResult()).elements = frame.get(op.getInput()).elements;
    return success();
  }
};

struct GeluModel : LocalModel<GeluModel, GeluOp> {
  static LogicalResult run(GeluOp op, Frame &frame) {
    const Tensor &input = frame.get(op.getInput());
    Tensor &result = frame.result(op.getResult());
    for (int64_t i = 0; i < input.getNumElements(); ++i)
      result[i] = Gelu(input[i], op.getExact()).value;
    return success();
  }
};

struct GeluWithSlopeModel : LocalModel<GeluWithSlopeModel, GeluWithSlopeOp> {
  static LogicalResult run(GeluWithSlopeOp op, Frame &frame) {
    const Tensor &input = frame.get(op.getInput());
    Tensor &result = frame.result(op.getResult());
    Tensor &slope = frame.result(op.getSlope());
    for (int64_t i = 0; i < input.getNumElements(); ++i) {
      Gelu gelu(input[i], op.getExact());
      result[i] = gelu.value;
      slope[i] = gelu.slope;
    }
    return success();
  }
};

/// σ(gate)·gate·up, and its gradient.
struct SwigluModel : LocalModel<SwigluModel, SwigluOp> {
  static LogicalResult run(SwigluOp op, Frame &frame) {
    const Tensor &gate = frame.get(op.getGate()), &up = frame.get(op.getUp());
    Tensor &result = frame.result(op.getResult());
    for (int64_t i = 0; i < gate.getNumElements(); ++i)
      result[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    return success();
  }
};

struct SwigluGradModel : LocalModel<SwigluGradModel, SwigluGradOp> {
  static LogicalResult run(SwigluGradOp op, Frame &frame) {
    const Tensor &dy = frame.get(op.getDy()), &gate = frame.get(op.getGate()),
                 &up = frame.get(op.getUp());
    Tensor &dgate = frame.result(op.getDgate());
    Tensor &dup = frame.result(op.getDup());
    for (int64_t i = 0; i < gate.getNumElements(); ++i) {
      double sigma = 1 / (1 + std::exp(-gate[i]));
      dgate[i] = dy[i] * up[i] * sigma * (1 + gate[i] * (1 - sigma));
      dup[i] = dy[i] * gate[i] * sigma;
    }
    return success();
  }
};

struct SqrtModel : LocalModel<SqrtModel, SqrtOp> {
  static LogicalResult run(SqrtOp op, Frame &frame) {
    const Tensor &input = frame.get(op.getInput());
    Tensor &result = frame.result(op.getResult());
    for (int64_t i = 0; i < input.getNumElements(); ++i)
      result[i] = std::sqrt(input[i]);
    return success();
  }
};

struct ConstantModel
    : InterpretableOpInterface::ExternalModel<ConstantModel,
                                              arith::ConstantOp> {
  LogicalResult interpret(Operation *op, Ranks &ranks) const {
    auto dense =
        dyn_cast<DenseElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!dense || !type)
      return op->emitOpError("expected a constant tensor, found ")
             << op->getResult(0).getType();
    Tensor constant = Tensor::zeros(type.getShape());
    if (isa<FloatType>(type.getElementType()))
      for (auto [index, x] : llvm::enumerate(dense.getValues<APFloat>()))
        constant[index] = x.convertToDouble();
    else
      for (auto [index, x] : llvm::enumerate(dense.getValues<APInt>()))
        constant[index] = static_cast<double>(x.getSExtValue());
    ranks.set(op->getResult(0),
              SmallVector<Tensor>(ranks.getNumRanks(), constant));
    return success();
  }
};

} // namespace

void mlir::optimus::attachElementwise(MLIRContext &context) {
  ReshardOp::attachInterface<ReshardModel>(context);
  AddOp::attachInterface<AddModel>(context);
  CastOp::attachInterface<CastModel>(context);
  MulOp::attachInterface<MulModel>(context);
  SumLeadingOp::attachInterface<SumLeadingModel>(context);
  GeluOp::attachInterface<GeluModel>(context);
  GeluWithSlopeOp::attachInterface<GeluWithSlopeModel>(context);
  SqrtOp::attachInterface<SqrtModel>(context);
  SwigluOp::attachInterface<SwigluModel>(context);
  SwigluGradOp::attachInterface<SwigluGradModel>(context);
}

void mlir::optimus::attachConstants(MLIRContext &context) {
  arith::ConstantOp::attachInterface<ConstantModel>(context);
}
