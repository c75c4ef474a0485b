//===- TrainedParameters.h - Which parameters have gradients ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parameter is trained if @grad has its gradient. Where some are frozen, each
// gradient names its parameter.
//
//   @grad(%w, %a, %b, …) -> (sum, count, da {optimus.binding = grad of a})
//   trained: [1]
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_TRAINEDPARAMETERS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_TRAINEDPARAMETERS_H

#include "LossFunction.h"

namespace mlir::optimus {

/// The numbers of parameters whose names match one of the patterns, separated
/// by semicolons; all where there are none. An error for a wrong pattern, and
/// for one without a match, with the nearest names.
FailureOr<SmallVector<int64_t>> chooseTrained(const LossFunction &loss,
                                              StringRef patterns);

/// Makes the gradients of `@grad` say whose they are, unless all parameters
/// have one.
void nameGradients(const LossFunction &loss, func::FuncOp grad,
                   ArrayRef<int64_t> trained);

/// The parameters that `@grad` has gradients of, in order. An error where its
/// type is not that of `@loss` with these.
FailureOr<SmallVector<int64_t>> findTrained(const LossFunction &loss,
                                            func::FuncOp grad);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_TRAINEDPARAMETERS_H
