//===- Operands.h - Which operand one is ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_IR_OPERANDS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_IR_OPERANDS_H

#include "mlir/IR/Operation.h"

namespace mlir::optimus {

/// Whether an operand is one of a group, by position: one value may be an
/// operand twice.
inline bool isOneOf(OpOperand &operand, MutableOperandRange group) {
  return llvm::any_of(group,
                      [&](OpOperand &other) { return &other == &operand; });
}

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_IR_OPERANDS_H
