//===- ElementBytes.h - How many bytes tensors have -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_ELEMENTBYTES_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_ELEMENTBYTES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::optimus {

/// The bytes of one element of a tensor or buffer, or of an element type.
inline int64_t getElementBytes(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

/// The bytes of all elements of a tensor or buffer of static shape.
inline int64_t getBytes(Type type) {
  return cast<ShapedType>(type).getNumElements() * getElementBytes(type);
}

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_ELEMENTBYTES_H
