//===- SoftmaxParts.h - What forms of a softmax share -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_SOFTMAXPARTS_H
#define OPTIMUS_KERNELS_SOFTMAXPARTS_H

#include "optimus/Kernels/HeadLossKernels.h"
#include "optimus/Kernels/KernelBuilder.h"

namespace mlir::optimus::kernels {

/// Writes what all forms of SoftmaxOnce share.
class SoftmaxParts {
public:
  SoftmaxParts(KernelBuilder &k, const SoftmaxOnce &softmax)
      : k(k), b(k.getBuilder()), softmax(softmax), first(k.getIndex("first")),
        real(k.getIndex("real")) {}

  /// The first logit of a row.
  Value getBase(Value row) { return k.mulIndex(row, k.index(softmax.cols)); }
  /// How many columns from `at` on are real, as i32; negative behind them.
  Value getLeft(Value at);
  /// Which lanes of `type` are, if so many are left.
  Value areReal(Value left, Type type);
  /// Writes the sums of a row, once; no logit is overwritten yet.
  void storeSums(Value row, Num max, Num total);
  /// A row's target.
  struct Target {
    Value isReal; ///< whether it counts
    Value column; ///< of i32, anywhere if it does not count
  };
  Target getTarget(Value row);
  /// The gradient of the columns from `at` on with such probabilities.
  Num getGradient(Num probabilities, Value at, const Target &target);

private:
  KernelBuilder &k;
  ImplicitLocOpBuilder &b;
  const SoftmaxOnce &softmax;
  Value first, real;
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_SOFTMAXPARTS_H
