//===- OptimizerSteps.h - What optimizers compute ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formulas of optimizers at one element. They are templates of the numbers
// that they compute with: values of a kernel's body (optimus/Kernels/Num.h), or
// f64 in the interpreter. `x` has the operands at an element by their names.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERSTEPS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERSTEPS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <array>
#include <cmath>
#include <tuple>

namespace mlir::optimus {

// What other numbers than f64 have, too.

/// `value` as a number like `x`.
inline double getConstant(double x, double value) { return value; }
/// Rounded before it is added to anything.
inline double multiplyRounded(double a, double b) { return a * b; }
/// `positive` where x is, else `other`.
inline double selectPositive(double x, double positive, double other) {
  return x > 0 ? positive : other;
}

namespace steps {
using std::sqrt;

/// −1, 0 or 1; NaN stays.
template <typename N>
N sign(N x) {
  return selectPositive(x, getConstant(x, 1),
                        selectPositive(x * -1.0, getConstant(x, -1), x));
}

/// The formula of an operation: `of(x, decay)` returns its results.
template <typename OpT>
struct Step;

/// m'/(1−β₁ᵗ) / (√(v'/(1−β₂ᵗ)) + ε), m' and v'.
template <typename X>
auto getMoments(X x) {
  auto g = x.getGrad() * x.getScale();
  auto m = x.getBeta1() * x.getExpAvg() + (1.0 - x.getBeta1()) * g;
  auto v = x.getBeta2() * x.getExpAvgSq() + (1.0 - x.getBeta2()) * g * g;
  auto correct1 = 1.0 / (1.0 - x.getBeta1Power()),
       correct2 = 1.0 / (1.0 - x.getBeta2Power());
  return std::array{m * correct1 / (sqrt(v * correct2) + x.getEpsilon()), m, v};
}

template <>
struct Step<AdamWOp> {
  template <typename X>
  static auto of(X x, bool decay) {
    auto [direction, m, v] = getMoments(x);
    auto next = x.getParam() - x.getLr() * direction;
    if (decay)
      next = next - x.getLr() * x.getWeightDecay() * x.getParam();
    return std::array{next, m, v};
  }
};

template <>
struct Step<LambDirectionOp> {
  template <typename X>
  static auto of(X x, bool decay) {
    auto moments = getMoments(x);
    if (decay)
      moments[0] = moments[0] + x.getWeightDecay() * x.getParam();
    return moments;
  }
};

template <>
struct Step<LambUpdateOp> {
  template <typename X>
  static auto of(X x, bool) {
    auto step = x.getLr();
    if (auto norms = x.getNorms(); !norms.empty()) {
      auto one = getConstant(norms[0], 1);
      step = step *
             selectPositive(norms[0],
                            selectPositive(norms[1], norms[0] / norms[1], one),
                            one);
    }
    return std::array{x.getParam() - step * x.getDirection()};
  }
};

template <>
struct Step<SgdOp> {
  template <typename X>
  static auto of(X x, bool decay) {
    // Of the two products, the momentum's is fused with the sum.
    auto b = x.getMomentum() * x.getMomentumBuffer() +
             multiplyRounded(x.getGrad(), x.getScale());
    if (decay)
      b = b + x.getWeightDecay() * x.getParam();
    return std::array{x.getParam() - x.getLr() * b, b};
  }
};

template <>
struct Step<LionOp> {
  template <typename X>
  static auto of(X x, bool decay) {
    auto g = x.getGrad() * x.getScale(), m = x.getExpAvg();
    auto direction = sign(x.getBeta1() * m + (1.0 - x.getBeta1()) * g);
    auto next = x.getParam() - x.getLr() * direction;
    if (decay)
      next = next - x.getLr() * x.getWeightDecay() * x.getParam();
    return std::array{next, x.getBeta2() * m + (1.0 - x.getBeta2()) * g};
  }
};

template <>
struct Step<AdagradOp> {
  template <typename X>
  static auto of(X x, bool decay) {
    auto g = x.getGrad() * x.getScale();
    if (decay)
      g = g + x.getWeightDecay() * x.getParam();
    auto sum = x.getSum() + g * g;
    return std::array{
        x.getParam() - x.getLr() * g / (sqrt(sum) + x.getEpsilon()), sum};
  }
};
} // namespace steps

/// All operations that have a formula.
using StepOps = std::tuple<AdagradOp, AdamWOp, LambDirectionOp, LambUpdateOp,
                           LionOp, SgdOp>;

/// The results of an operation at an element of its operands.
template <typename OpT, typename N>
auto computeStep(ArrayRef<N> operands, bool decay) {
  typename OpT::template GenericAdaptor<ArrayRef<N>> x(
      operands, DictionaryAttr(), typename OpT::Properties());
  return steps::Step<OpT>::of(x, decay);
}

/// Gives each operation that has a formula its interface `Model`.
template <template <typename> typename Model>
void attachStepModels(MLIRContext &context) {
  auto attach = [&]<typename... OpTs>(std::tuple<OpTs...> *) {
    (OpTs::template attachInterface<Model<OpTs>>(context), ...);
  };
  attach(static_cast<StepOps *>(nullptr));
}

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERSTEPS_H
