//===- GradientAccumulator.h - Gradients while they are built ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_GRADIENTACCUMULATOR_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_GRADIENTACCUMULATOR_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::optimus {

/// The gradients found so far, one a value. Adding a second gradient to a value
/// emits an `optimus.add`. A gradient's operation gets the role of the value it is the
/// gradient of, so that both are sharded alike.
class GradientAccumulator {
public:
  explicit GradientAccumulator(OpBuilder &builder) : builder(builder) {}

  /// Adds `gradient` to what is known of d(loss)/d(value).
  void add(Value value, Value gradient);

  /// From now on `op` is what gradients are built for. The gradient of its
  /// operand k is result k of its backward, in the ids of values.
  void enter(Operation *op) { differentiated = op; }

  /// The gradient of a value, or null.
  Value lookup(Value value) const { return gradients.lookup(value); }

  /// Takes the gradient out, for an operation that adds to it itself and
  /// gives the sum back with `add`; null where there is none yet.
  Value take(Value value);

  /// Marks `to` as having the role of `from`.
  static void copyRole(Value from, Value to);

private:
  /// Numbers the results of the operation that makes `gradient`, once, by the
  /// operands they are gradients of.
  void number(Value value, Value gradient);

  OpBuilder &builder;
  Operation *differentiated = nullptr;
  llvm::DenseSet<Operation *> numbered;
  llvm::DenseMap<Value, Value> gradients;
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_GRADIENTACCUMULATOR_H
