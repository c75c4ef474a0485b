//===- GradientCheck.cpp - Gradients by central differences -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/GradientCheck.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

bool GradientCheck::passed() const {
  return std::abs(gradient - difference) <= tolerance;
}

namespace {

/// Central differences of a loss in one argument.
class Differences {
public:
  Differences(func::FuncOp loss, ArrayRef<Tensor> arguments)
      : loss(loss), arguments(arguments) {}

  struct Estimate {
    double value, tolerance;
  };

  /// d(loss)/d(element). For D(s) = (f(x+s) − f(x−s)) / 2s at s = h and 2h, the
  /// truncation errors are h²f‴/6 and 4 times this, so (D(2h) − D(h)) / 3 is
  /// the error of D(h); twice it is allowed. Rounding adds |f|·n·2^-53 / h,
  /// with n roundings, most of them in sums whose errors partly cancel: n = 64.
  FailureOr<Estimate> estimate(unsigned argument, int64_t element) {
    double x = arguments[argument][element];
    // The step at which truncation and rounding are of one size.
    double h = std::cbrt(0x1p-52) * std::max(1.0, std::abs(x));
    FailureOr<double> near = getSlope(argument, element, h);
    FailureOr<double> far = getSlope(argument, element, 2 * h);
    if (failed(near) || failed(far))
      return failure();
    double rounding = 64 * 0x1p-53 * std::max(1.0, largestLoss) / h;
    return Estimate{*near, 2 * std::abs(*far - *near) / 3 + rounding};
  }

private:
  FailureOr<double> getSlope(unsigned argument, int64_t element, double h) {
    double x = arguments[argument][element], losses[2];
    // The distance between what x + h and x − h are rounded to.
    double above = x + h, below = x - h;
    for (auto [at, value] : {std::pair(0, above), std::pair(1, below)}) {
      arguments[argument][element] = value;
      FailureOr<SmallVector<Tensor>> results = interpret(loss, arguments);
      arguments[argument][element] = x;
      if (failed(results))
        return failure();
      losses[at] = results->front()[0];
      largestLoss = std::max(largestLoss, std::abs(losses[at]));
    }
    return (losses[0] - losses[1]) / (above - below);
  }

  func::FuncOp loss;
  SmallVector<Tensor> arguments;
  double largestLoss = 0;
};

/// Compares the gradient of one parameter.
FailureOr<GradientCheck> checkParameter(Differences &differences,
                                        StringRef name, unsigned argument,
                                        const Tensor &gradient, int64_t limit) {
  int64_t count = gradient.getNumElements();
  int64_t numChecked = std::min(count, limit);
  GradientCheck check{name.str(), numChecked, 0, 0, 0, 0, 0};
  double largestError = 0, largestDifference = 0, worstRatio = -1;
  for (int64_t i = 0; i < numChecked; ++i) {
    int64_t element = i * count / numChecked;
    FailureOr<Differences::Estimate> estimate =
        differences.estimate(argument, element);
    if (failed(estimate))
      return failure();
    double error = std::abs(gradient[element] - estimate->value);
    largestError = std::max(largestError, error);
    largestDifference = std::max(largestDifference, std::abs(estimate->value));
    // Not less, so that a NaN is the worst.
    if (!(error / estimate->tolerance <= worstRatio)) {
      worstRatio = error / estimate->tolerance;
      check.worst = element;
      check.gradient = gradient[element];
      check.difference = estimate->value;
      check.tolerance = estimate->tolerance;
    }
  }
  check.maxRelativeError = largestError / std::max(largestDifference, 1e-300);
  return check;
}

} // namespace

/// The number of the result with the gradient of parameter `place`; none of a
/// frozen one. Where there are frozen ones, results name their parameters.
static std::optional<size_t> findGradient(func::FuncOp grad, StringRef name,
                                          size_t place) {
  constexpr size_t kFirst = 2;
  bool areNamed = false;
  for (unsigned result = kFirst; result < grad.getNumResults(); ++result)
    if (auto buffer = grad.getResultAttrOfType<BufferAttr>(
            result, OptimusDialect::kBinding);
        buffer && buffer.getOf()) {
      areNamed = true;
      if (buffer.getOf() == name)
        return result;
    }
  return areNamed ? std::nullopt : std::optional(kFirst + place);
}

FailureOr<SmallVector<GradientCheck>>
mlir::optimus::checkGradients(func::FuncOp loss, func::FuncOp grad,
                              ArrayRef<Tensor> arguments, int64_t limit) {
  FailureOr<SmallVector<Tensor>> results = interpret(grad, arguments);
  if (failed(results))
    return failure();
  Differences differences(loss, arguments);
  SmallVector<GradientCheck> checks;
  size_t place = 0;
  for (unsigned argument = 0; argument < loss.getNumArguments(); ++argument) {
    auto name =
        loss.getArgAttrOfType<StringAttr>(argument, OptimusDialect::kParam);
    if (!name)
      continue;
    std::optional<size_t> found = findGradient(grad, name, place++);
    if (!found)
      continue;
    size_t result = *found;
    if (result >= results->size() ||
        (*results)[result].shape != arguments[argument].shape)
      return grad.emitError("@")
             << grad.getName() << ": expected the gradient of '"
             << name.getValue() << "', [" << arguments[argument].shape
             << "], as result " << result;
    FailureOr<GradientCheck> check =
        checkParameter(differences, name, argument, (*results)[result], limit);
    if (failed(check))
      return failure();
    checks.push_back(*check);
  }
  return checks;
}
