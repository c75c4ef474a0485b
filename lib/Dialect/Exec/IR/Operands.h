//===- Operands.h - What verifiers ask of buffers and axes ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_IR_OPERANDS_H
#define OPTIMUS_LIB_DIALECT_EXEC_IR_OPERANDS_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "optimus-support/Sizes.h"

namespace mlir::exec {

inline int64_t getExtent(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getNumElements();
}

inline Type getElementType(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getElementType();
}

/// Checks that a buffer, where it is there, has an element type or, where
/// `orF32`, f32.
LogicalResult verifyElementType(Operation *op, StringRef name, Value buffer,
                                Type expected, bool orF32 = false);

/// Checks that a leading dimension and, where there is one, the buffer fit a
/// matrix of positive rows and columns.
LogicalResult verifyMatrix(Operation *op, StringRef name, Value buffer,
                           int64_t rows, optimus_support::CheckedSize cols,
                           int64_t ld, StringRef ldName);

/// Checks that the module's mesh has some axes, all distinct; their sizes'
/// product.
FailureOr<int64_t> verifyAxes(Operation *op, ArrayRef<Attribute> axes);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_IR_OPERANDS_H
