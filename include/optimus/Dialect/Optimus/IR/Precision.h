//===- Precision.h - What an operation needs of element types ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_PRECISION_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_PRECISION_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {

/// The element type of an operand or result in a program of mixed precision.
/// The narrow type, as bf16, is for large and harmless tensors.
enum class Precision {
  /// f32: parameters, their gradients, statistics, sums over tokens.
  Full,
  /// The narrow type: factors of products, activations and their gradients.
  Narrow,
  /// All that are `Same` have one type: f32 if a reader of a result needs that,
  /// else the narrow type.
  Same,
  /// Of an operand: as `Same`, but f32 is welcome, as a parameter's.
  SameOrFull,
  /// Of an operand: f32 or the narrow type, as it comes. Of a result: as its
  /// readers need it.
  Any,
};

namespace detail {
/// Of operation classes that say it by `Optimus_Precisions`.
template <typename ConcreteType>
class HasPrecisions : public OpTrait::TraitBase<ConcreteType, HasPrecisions> {};

/// The entry of the group with `number` among `count` groups; `getGroup`
/// describes a group by its first member and its size.
template <typename GetGroup>
Precision findPrecision(unsigned number, ArrayRef<Precision> groups,
                        GetGroup getGroup) {
  for (auto [index, precision] : llvm::enumerate(groups)) {
    auto [first, size] = getGroup(index);
    if (number >= first && number < first + size)
      return precision;
  }
  llvm_unreachable("every operand and result is in a group");
}
} // namespace detail

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_PRECISION_H
