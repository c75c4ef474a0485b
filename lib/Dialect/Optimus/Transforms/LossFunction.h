//===- LossFunction.h - The function a model builder writes -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LOSSFUNCTION_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LOSSFUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// `@loss(params…, tokens, targets[, positions][, random]) -> (loss_sum,
/// real_count)`. The same arguments, with more results, are those of `@grad`.
struct LossFunction {
  static constexpr StringLiteral kName = "loss";
  /// Of `@loss`; gradients follow them in `@grad`.
  static constexpr unsigned kNumResults = 2;

  func::FuncOp function;
  /// Arguments [0, numParams) are parameters.
  int64_t numParams;
  /// What the others are: tokens and targets; positions in programs that keep
  /// documents apart; and random in those that draw random numbers.
  SmallVector<StringRef> inputs;

  int64_t getNumInputs() const { return inputs.size(); }

  /// The module's `@loss`. If it is missing or has another form, emits an error
  /// with the expected one. Parameters are f32, or narrower where mixed
  /// precision has been chosen.
  enum class Params { Full, Narrowed };
  static FailureOr<LossFunction> find(ModuleOp module,
                                      Params params = Params::Full);

  /// Whether a module has no `@loss` and needs none: its functions say by
  /// themselves what they are called for.
  static bool isWithout(ModuleOp module);

  /// The name that parameter `index` has in a checkpoint.
  StringRef getParamName(int64_t index) const;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LOSSFUNCTION_H
