//===- ElementwiseBodies.cpp - Scalar bodies of operations ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An elementwise operation needs the code of this file only: its kernel and its
// lowering follow.
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/ElementwiseBodyOpInterface.h"

#include "optimus/Dialect/Optimus/IR/OptimizerSteps.h"
#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Kernels/ElementwiseBodyOpInterface.cpp.inc"

/// √(2/π) and the cubic coefficient of GELU's tanh form.
static constexpr double kGeluScale = 0.7978845608028654;
static constexpr double kGeluCubic = 0.044715;

/// With u = √(2/π)(x + 0.044715 x³), GELU(x) = x/2·(1 + tanh u) = x·s where
/// s = 1/(1 + e^(−2u)). Returns e^(−2u).
static Num geluExp(KernelBuilder &k, Num x, Num square) {
  return k.resultExp(
      x * (square * (-2 * kGeluScale * kGeluCubic) - 2 * kGeluScale));
}

static bool isExact(DictionaryAttr attributes) {
  return attributes.contains("exact");
}

namespace {
/// GELU and its derivative at x. With φ and Φ the density and the distribution
/// of the standard normal, GELU(x) = x·Φ(x) and its derivative is
/// Φ(x) + x·φ(x).
struct ExactGelu {
  ExactGelu(KernelBuilder &k, Num x) {
    Num zero = k.constant(0, x.getType());
    Num z = k.max(x, zero - x) * 0.7071067811865476;
    Num one = k.constant(1, x.getType());
    Num e = k.resultExp(zero - z * z);
    // erfc(z) = t·g(t)·e^(−z²) with t = 1/(1 + 0.45 z); g interpolated in
    // Chebyshev nodes of [0, 1], with a relative error below 3.4e-8.
    Num t = k.resultQuotient(one, 1.0 + z * 0.45);
    static constexpr double coefficients[] = {
        0.2538853209733752,   0.2538831039009928,  0.22827402626130455,
        0.17521964021371572,  0.12015942249049796, -0.023087135307580206,
        0.1438592573093509,   -0.3022505599642259, 0.1917014303885614,
        -0.041644529452457536};
    Num g = k.constant(coefficients[9], x.getType());
    for (int degree = 8; degree >= 0; --degree)
      g = g * t + coefficients[degree];
    Num tail = t * g * e * 0.5; // Φ(−|x|)
    Num distribution = k.select(k.greater(x, zero), 1.0 - tail, tail);
    value = x * distribution;
    slope = distribution + x * e * 0.3989422804014327; // 1/√(2π)
  }
  Num value, slope;
};

template <typename Model, typename OpT>
struct BodyModel : ElementwiseBodyOpInterface::ExternalModel<Model, OpT> {
  static void attach(MLIRContext &context) {
    OpT::template attachInterface<Model>(context);
  }
};

struct AddBody : BodyModel<AddBody, AddOp> {
  static Terms buildElement(KernelBuilder &, ArrayRef<Num> operands,
                            DictionaryAttr) {
    return {operands[0] + operands[1]};
  }
};

/// Loads and stores convert.
struct CastBody : BodyModel<CastBody, CastOp> {
  static Terms buildElement(KernelBuilder &, ArrayRef<Num> operands,
                            DictionaryAttr) {
    return {operands[0]};
  }
};

struct MulBody : BodyModel<MulBody, MulOp> {
  static Terms buildElement(KernelBuilder &, ArrayRef<Num> operands,
                            DictionaryAttr) {
    return {operands[0] * operands[1]};
  }
};

struct SqrtBody : BodyModel<SqrtBody, SqrtOp> {
  static Terms buildElement(KernelBuilder &k, ArrayRef<Num> operands,
                            DictionaryAttr) {
    return {k.sqrt(operands[0])};
  }
};

struct GeluBody : BodyModel<GeluBody, GeluOp> {
  static Terms buildElement(KernelBuilder &k, ArrayRef<Num> operands,
                            DictionaryAttr attributes) {
    Num x = operands[0];
    if (isExact(attributes))
      return {ExactGelu(k, x).value};
    return {k.resultQuotient(x, 1.0 + geluExp(k, x, x * x))};
  }
};

struct GeluWithSlopeBody : BodyModel<GeluWithSlopeBody, GeluWithSlopeOp> {
  static Terms buildElement(KernelBuilder &k, ArrayRef<Num> operands,
                            DictionaryAttr attributes) {
    Num x = operands[0];
    if (isExact(attributes)) {
      ExactGelu gelu(k, x);
      return {gelu.value, gelu.slope};
    }
    Num square = x * x;
    Num e = geluExp(k, x, square);
    Num s = k.resultQuotient(k.constant(1, x.getType()), 1.0 + e);
    // s' = s(1 − s)·(2u)' with 1 − s = e·s.
    Num slope2u = square * (6 * kGeluScale * kGeluCubic) + 2 * kGeluScale;
    return {x * s, s + x * slope2u * (e * s) * s};
  }
};

struct SwigluBody : BodyModel<SwigluBody, SwigluOp> {
  static Terms buildElement(KernelBuilder &k, ArrayRef<Num> operands,
                            DictionaryAttr) {
    Num gate = operands[0], up = operands[1];
    return {k.resultQuotient(gate, 1.0 + k.resultExp(gate * -1.0)) * up};
  }
};

struct SwigluGradBody : BodyModel<SwigluGradBody, SwigluGradOp> {
  static Terms buildElement(KernelBuilder &k, ArrayRef<Num> operands,
                            DictionaryAttr) {
    Num dy = operands[0], gate = operands[1], up = operands[2];
    Num e = k.resultExp(gate * -1.0);
    Num s = k.resultQuotient(k.constant(1, gate.getType()), 1.0 + e);
    // (gate·s)' = s + gate·s·(1 − s), with 1 − s = e·s.
    return {dy * up * (s + gate * (e * s) * s), dy * (gate * s)};
  }
};

/// A step of an optimizer; its formula is in OptimizerSteps.h.
template <typename OpT>
struct StepBody
    : ElementwiseBodyOpInterface::ExternalModel<StepBody<OpT>, OpT> {
  static Terms buildElement(KernelBuilder &, ArrayRef<Num> operands,
                            DictionaryAttr attributes) {
    return llvm::to_vector<2>(
        computeStep<OpT>(operands, attributes.contains("decay")));
  }
  static std::optional<ElementwiseNames> getNames(unsigned numOperands) {
    ElementwiseNames names;
    llvm::append_range(names.tensors, OpT::kTensors);
    llvm::append_range(names.numbers, OpT::kNumbers);
    for (StringRef name : OpT::kResults) {
      ElementwiseNames::Result &result = names.results.emplace_back();
      result.name = name;
      if (names.results.size() == 1)
        llvm::append_range(result.places, OpT::kPlaces);
      else
        result.places.push_back(name.drop_front(StringRef("new_").size()));
    }
    if constexpr (requires { OpT::kOption; }) {
      if (numOperands == names.tensors.size() + names.numbers.size())
        names.option = OpT::kOption;
      else
        names.numbers.resize(1);
    }
    return names;
  }
};
} // namespace

template <typename... Models>
static void attachBodies(MLIRContext &context) {
  (Models::attach(context), ...);
}

void mlir::optimus::attachElementwiseBodies(MLIRContext &context) {
  attachBodies<AddBody, CastBody, GeluBody, GeluWithSlopeBody, MulBody,
               SqrtBody, SwigluBody, SwigluGradBody>(context);
  attachStepModels<StepBody>(context);
}
