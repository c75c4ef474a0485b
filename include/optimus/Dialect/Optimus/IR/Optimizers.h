//===- Optimizers.h - What optimizers keep and are told ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERS_H

#include "optimus/Dialect/Optimus/IR/ShardingRule.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::optimus {

/// What an optimizer is given to update one parameter.
struct ParameterUpdate {
  Location loc;
  Value param, gradient;
  /// What it keeps of the parameter, in the order of its form.
  ArrayRef<Value> states;
  /// What averages and clips the gradient.
  Value scale;
  /// Its run-time scalars, by name.
  llvm::function_ref<Value(StringRef)> getScalar;
  /// Whether the weight decays.
  bool decay;
};

/// The form of an optimizer's step. Names are those of bindings, of the
/// manifest and of checkpoints.
struct OptimizerForm {
  StringRef name;
  /// The tensors it keeps of each parameter, zero at first, in the order of
  /// the step's arguments.
  ArrayRef<StringRef> states;
  /// Its run-time scalars, in the order of the step's arguments.
  ArrayRef<StringRef> scalars;
  /// Builds the update: the new parameter, then its new states.
  SmallVector<Value> (*build)(OpBuilder &builder,
                              const ParameterUpdate &update);
};

/// Before the role of a parameter, the role of its gradient's sum over
/// microbatches. It lies as the parameter does, but ranks with different tokens
/// may each hold a partial sum of it, reduced once a step.
inline constexpr StringLiteral kSumRole = "sum:";

/// The names of all optimizers; the default comes first.
ArrayRef<StringRef> getKnownOptimizers();

/// "The optimizer: adamw, …", for help texts.
StringRef getOptimizerHelp();

/// The form of an optimizer, or null where the name is unknown.
const OptimizerForm *lookupOptimizer(StringRef name);

/// Whether some optimizer keeps a state of this name.
bool isOptimizerState(StringRef name);

namespace detail {
/// C1 of steps: all tensors and results have the shape of the first tensor.
LogicalResult verifyStep(Operation *op, ArrayRef<StringRef> tensors,
                         ArrayRef<StringRef> results);
ShardingRule getStepRule(Operation *op);
} // namespace detail

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMIZERS_H
