//===- Optimizer.cpp - Norms of gradients, clipping and AdamW ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

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

struct SumSquaresModel : LocalModel<SumSquaresModel, SumSquaresOp> {
  static LogicalResult run(SumSquaresOp op, Frame &frame) {
    FailureOr<double> sum = sumSquares(op, frame);
    if (failed(sum))
      return failure();
    frame.result(op.getSum())[0] = *sum;
    return success();
  }
};

struct GlobalNormModel : LocalModel<GlobalNormModel, GlobalNormOp> {
  static LogicalResult run(GlobalNormOp op, Frame &frame) {
    FailureOr<double> sum = sumSquares(op, frame);
    if (failed(sum))
      return failure();
    frame.result(op.getNorm())[0] = std::sqrt(*sum);
    return success();
  }
};

struct ClipModel : LocalModel<ClipModel, ClipOp> {
  static LogicalResult run(ClipOp op, Frame &frame) {
    double count = std::max(frame.get(op.getCount())[0], 1.0);
    double meanNorm = frame.get(op.getNorm())[0] / count;
    double ratio = frame.get(op.getLimit())[0] / (meanNorm + 1e-6);
    // A NaN norm gives a NaN factor.
    frame.result(op.getScale())[0] = (ratio > 1 ? 1 : ratio) / count;
    frame.result(op.getMeanNorm())[0] = meanNorm;
    return success();
  }
};

/// Adam's moments after a gradient, and `use(i, direction)` with what each
/// element moves along, decay included.
template <typename Op>
void updateMoments(Op op, Frame &frame,
                   llvm::function_ref<void(int64_t i, double direction)> use) {
  auto scalar = [&](Value value) { return frame.get(value)[0]; };
  double scale = scalar(op.getScale());
  double beta1 = scalar(op.getBeta1()), beta2 = scalar(op.getBeta2());
  double correct1 = 1 - scalar(op.getBeta1Power());
  double correct2 = 1 - scalar(op.getBeta2Power());
  double decay = op.getDecay() ? scalar(op.getWeightDecay()) : 0;
  double epsilon = scalar(op.getEpsilon());
  const Tensor &p = frame.get(op.getParam()), &g = frame.get(op.getGrad());
  const Tensor &m = frame.get(op.getExpAvg());
  const Tensor &v = frame.get(op.getExpAvgSq());
  Tensor &newM = frame.result(op.getNewExpAvg());
  Tensor &newV = frame.result(op.getNewExpAvgSq());
  for (int64_t i = 0; i < p.getNumElements(); ++i) {
    double scaled = g[i] * scale;
    newM[i] = beta1 * m[i] + (1 - beta1) * scaled;
    newV[i] = beta2 * v[i] + (1 - beta2) * scaled * scaled;
    double step =
        newM[i] / correct1 / (std::sqrt(newV[i] / correct2) + epsilon);
    use(i, step + decay * p[i]);
  }
}

struct AdamWModel : LocalModel<AdamWModel, AdamWOp> {
  static LogicalResult run(AdamWOp op, Frame &frame) {
    double lr = frame.get(op.getLr())[0];
    const Tensor &p = frame.get(op.getParam());
    Tensor &newP = frame.result(op.getNewParam());
    updateMoments(op, frame, [&](int64_t i, double direction) {
      newP[i] = p[i] - lr * direction;
    });
    return success();
  }
};

struct SgdModel : LocalModel<SgdModel, SgdOp> {
  static LogicalResult run(SgdOp op, Frame &frame) {
    auto scalar = [&](Value value) { return frame.get(value)[0]; };
    double scale = scalar(op.getScale()), lr = scalar(op.getLr());
    double momentum = scalar(op.getMomentum());
    double decay = op.getDecay() ? scalar(op.getWeightDecay()) : 0;
    const Tensor &p = frame.get(op.getParam()), &g = frame.get(op.getGrad());
    const Tensor &b = frame.get(op.getMomentumBuffer());
    Tensor &newP = frame.result(op.getNewParam());
    Tensor &newB = frame.result(op.getNewMomentumBuffer());
    for (int64_t i = 0; i < p.getNumElements(); ++i) {
      newB[i] = momentum * b[i] + g[i] * scale + decay * p[i];
      newP[i] = p[i] - lr * newB[i];
    }
    return success();
  }
};

struct LambDirectionModel : LocalModel<LambDirectionModel, LambDirectionOp> {
  static LogicalResult run(LambDirectionOp op, Frame &frame) {
    Tensor &result = frame.result(op.getDirection());
    updateMoments(op, frame,
                  [&](int64_t i, double direction) { result[i] = direction; });
    return success();
  }
};

struct LambUpdateModel : LocalModel<LambUpdateModel, LambUpdateOp> {
  static LogicalResult run(LambUpdateOp op, Frame &frame) {
    double ratio = 1;
    if (!op.getNorms().empty()) {
      double param = frame.get(op.getNorms()[0])[0];
      double direction = frame.get(op.getNorms()[1])[0];
      if (param > 0 && direction > 0)
        ratio = param / direction;
    }
    double step = frame.get(op.getLr())[0] * ratio;
    const Tensor &p = frame.get(op.getParam());
    const Tensor &direction = frame.get(op.getDirection());
    Tensor &newP = frame.result(op.getNewParam());
    for (int64_t i = 0; i < p.getNumElements(); ++i)
      newP[i] = p[i] - step * direction[i];
    return success();
  }
};

} // namespace

void mlir::optimus::attachOptimizer(MLIRContext &context) {
  SumSquaresOp::attachInterface<SumSquaresModel>(context);
  GlobalNormOp::attachInterface<GlobalNormModel>(context);
  ClipOp::attachInterface<ClipModel>(context);
  AdamWOp::attachInterface<AdamWModel>(context);
  SgdOp::attachInterface<SgdModel>(context);
  LambDirectionOp::attachInterface<LambDirectionModel>(context);
  LambUpdateOp::attachInterface<LambUpdateModel>(context);
}
