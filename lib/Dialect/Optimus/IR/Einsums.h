//===- Einsums.h - Einsum-like strings of rules -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_IR_EINSUMS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_IR_EINSUMS_H

#include "optimus/Dialect/Optimus/IR/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"

#include <string>

namespace mlir::optimus {

/// Letters for `count` dimensions, from `first` on.
inline std::string letters(int64_t count, char first) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text.push_back(first + i);
  return text;
}

inline int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

/// What the letters stand for where tokens [A, B] meet a table [v, h].
inline constexpr std::pair<char, DimensionClass> kTableDimensions[] = {
    {'A', DimensionClass::Batch},
    {'B', DimensionClass::Sequence},
    {'v', DimensionClass::Vocabulary},
    {'h', DimensionClass::Hidden}};

/// Every operand and result has the same dimensions.
inline ShardingRule elementwiseRule(Operation *op) {
  std::string all = letters(rankOf(op->getResult(0)), 'a');
  std::string spec = all;
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    spec += "," + all;
  spec += "->" + all;
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    spec += "," + all;
  return ShardingRule::fromEinsum(op, spec);
}

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_IR_EINSUMS_H
