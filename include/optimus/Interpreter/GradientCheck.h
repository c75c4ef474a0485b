//===- GradientCheck.h - Gradients by central differences -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_GRADIENTCHECK_H
#define OPTIMUS_INTERPRETER_GRADIENTCHECK_H

#include "optimus/Interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mlir::optimus {

/// How well a parameter's gradient agrees with central differences.
struct GradientCheck {
  std::string parameter;
  int64_t numChecked;
  /// The largest |gradient − difference|, relative to the largest magnitude of
  /// a difference of this parameter.
  double maxRelativeError;
  /// The element with the largest |gradient − difference| / tolerance, and
  /// what was found there.
  int64_t worst;
  double gradient, difference, tolerance;

  bool passed() const;
};

/// Compares the gradients from `grad` (its results after loss_sum and
/// real_count) with central differences of the first result of `loss`, for each
/// argument with `optimus.param`. At most `limit` elements a parameter are
/// checked, evenly spread.
FailureOr<SmallVector<GradientCheck>> checkGradients(func::FuncOp loss,
                                                     func::FuncOp grad,
                                                     ArrayRef<Tensor> arguments,
                                                     int64_t limit);

} // namespace mlir::optimus

#endif // OPTIMUS_INTERPRETER_GRADIENTCHECK_H
