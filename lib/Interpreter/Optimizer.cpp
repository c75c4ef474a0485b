//===- Optimizer.cpp - Norms of gradients, clipping, steps ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/OptimizerSteps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

/// The sum of the squares of all operands' elements, padding being zero.
static FailureOr<double> sumSquares(Operation *op, Frame &frame) {
  double sum = 0;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    const Tensor &tensor = frame.get(operand);
    std::vector<bool> padding =
        frame.getPadding(operand, 0, tensor.shape.size());
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      if (padding[i] && tensor[i] != 0)
        return frame.emitError()
               << "sums over padding of operand " << number << " that holds "
               << tensor[i] << "; expected exactly 0";
      sum += tensor[i] * tensor[i];
    }
  }
  return sum;
}

namespace {

LogicalResult executeLocally(SumSquaresOp op, Frame &frame) {
  FailureOr<double> sum = sumSquares(op, frame);
  if (failed(sum))
    return failure();
  frame.result(op.getSum())[0] = *sum;
  return success();
}

LogicalResult executeLocally(GlobalNormOp op, Frame &frame) {
  FailureOr<double> sum = sumSquares(op, frame);
  if (failed(sum))
    return failure();
  frame.result(op.getNorm())[0] = std::sqrt(*sum);
  return success();
}

LogicalResult executeLocally(ClipOp op, Frame &frame) {
  double count = std::max(frame.get(op.getCount())[0], 1.0);
  double meanNorm = frame.get(op.getNorm())[0] / count;
  double ratio = frame.get(op.getLimit())[0] / (meanNorm + 1e-6);
  // A NaN norm gives a NaN factor.
  frame.result(op.getScale())[0] = (ratio > 1 ? 1 : ratio) / count;
  frame.result(op.getMeanNorm())[0] = meanNorm;
  return success();
}

/// A step, element by element.
template <typename OpT>
LogicalResult executeStep(OpT op, Frame &frame) {
  SmallVector<const Tensor *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&frame.get(operand));
  SmallVector<double> x(operands.size());
  bool decay = op->getAttr("decay") != nullptr;
  for (int64_t i = 0; i < operands.front()->getNumElements(); ++i) {
    for (auto [value, tensor] : llvm::zip_equal(x, operands))
      value = (*tensor)[i % tensor->getNumElements()];
    for (auto [result, value] :
         llvm::zip_equal(op->getResults(), computeStep<OpT, double>(x, decay)))
      frame.result(result)[i] = value;
  }
  return success();
}

template <typename OpT>
using StepModel = LocalModel<OpT, executeStep<OpT>>;

} // namespace

void mlir::optimus::attachOptimizer(MLIRContext &context) {
  LocalModel<SumSquaresOp, executeLocally>::attach(context);
  LocalModel<GlobalNormOp, executeLocally>::attach(context);
  LocalModel<ClipOp, executeLocally>::attach(context);
  attachStepModels<StepModel>(context);
}
