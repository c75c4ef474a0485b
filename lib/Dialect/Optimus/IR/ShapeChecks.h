//===- ShapeChecks.h - What verifiers ask of shapes -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_IR_SHAPECHECKS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_IR_SHAPECHECKS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace mlir::optimus {

inline ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

inline std::string toString(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(shape, os);
  os << ']';
  return text;
}

/// Checks that `name` has the shape required by the constraint `label`.
inline LogicalResult expectShape(Operation *op, StringRef label, StringRef name,
                                 Value value, ArrayRef<int64_t> expected) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError() << label << ": expected " << name << " of shape "
                           << toString(expected) << ", found "
                           << toString(shapeOf(value));
}

inline Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Checks that `name`, if present, has the element type required by the
/// constraint `label` or, where `orF32`, f32.
inline LogicalResult expectElements(Operation *op, StringRef label,
                                    StringRef name, Value value, Type expected,
                                    bool orF32 = false) {
  if (!value || elementTypeOf(value) == expected ||
      (orF32 && elementTypeOf(value).isF32()))
    return success();
  return op->emitOpError() << label << ": expected " << name << " of "
                           << expected
                           << (orF32 && !expected.isF32() ? " or f32" : "")
                           << " elements, found " << elementTypeOf(value);
}

inline SmallVector<int64_t> append(ArrayRef<int64_t> shape, int64_t size) {
  SmallVector<int64_t> result(shape);
  result.push_back(size);
  return result;
}

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_IR_SHAPECHECKS_H
