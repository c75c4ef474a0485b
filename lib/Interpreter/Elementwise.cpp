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
      slope =
          below + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
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

LogicalResult executeLocally(AddOp op, Frame &frame) {
  const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
  Tensor &result = frame.result(op.getResult());
  for (int64_t i = 0; i < lhs.getNumElements(); ++i)
    result[i] = lhs[i] + rhs[i % rhs.getNumElements()];
  return success();
}

LogicalResult executeLocally(MulOp op, Frame &frame) {
  const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
  Tensor &result = frame.result(op.getResult());
  for (int64_t i = 0; i < lhs.getNumElements(); ++i)
    result[i] = lhs[i] * rhs[i % rhs.getNumElements()];
  return success();
}

LogicalResult executeLocally(SumLeadingOp op, Frame &frame) {
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

LogicalResult executeLocally(ReshardOp op, Frame &frame) {
  frame.result(op.getResult()).elements = frame.get(op.getInput()).elements;
  return success();
}

/// Numbers are f64 here, whatever their element types are.
LogicalResult executeLocally(CastOp op, Frame &frame) {
  frame.result(op.getResult()).elements = frame.get(op.getInput()).elements;
  return success();
}

LogicalResult executeLocally(GeluOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  Tensor &result = frame.result(op.getResult());
  for (int64_t i = 0; i < input.getNumElements(); ++i)
    result[i] = Gelu(input[i], op.getExact()).value;
  return success();
}

LogicalResult executeLocally(GeluWithSlopeOp op, Frame &frame) {
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

/// σ(gate)·gate·up, and its gradient.
LogicalResult executeLocally(SwigluOp op, Frame &frame) {
  const Tensor &gate = frame.get(op.getGate()), &up = frame.get(op.getUp());
  Tensor &result = frame.result(op.getResult());
  for (int64_t i = 0; i < gate.getNumElements(); ++i)
    result[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return success();
}

LogicalResult executeLocally(SwigluGradOp op, Frame &frame) {
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

LogicalResult executeLocally(SqrtOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  Tensor &result = frame.result(op.getResult());
  for (int64_t i = 0; i < input.getNumElements(); ++i)
    result[i] = std::sqrt(input[i]);
  return success();
}

LogicalResult executeTogether(arith::ConstantOp op, Ranks &ranks) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!dense || !type)
    return op.emitOpError("expected a constant tensor, found ")
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

} // namespace

void mlir::optimus::attachElementwise(MLIRContext &context) {
  LocalModel<ReshardOp, executeLocally>::attach(context);
  LocalModel<AddOp, executeLocally>::attach(context);
  LocalModel<CastOp, executeLocally>::attach(context);
  LocalModel<MulOp, executeLocally>::attach(context);
  LocalModel<SumLeadingOp, executeLocally>::attach(context);
  LocalModel<GeluOp, executeLocally>::attach(context);
  LocalModel<GeluWithSlopeOp, executeLocally>::attach(context);
  LocalModel<SqrtOp, executeLocally>::attach(context);
  LocalModel<SwigluOp, executeLocally>::attach(context);
  LocalModel<SwigluGradOp, executeLocally>::attach(context);
}

void mlir::optimus::attachConstants(MLIRContext &context) {
  RanksModel<arith::ConstantOp, executeTogether>::attach(context);
}
