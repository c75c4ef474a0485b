//===- Operands.cpp - What verifiers ask of buffers and axes ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

LogicalResult mlir::exec::verifyElementType(Operation *op, StringRef name,
                                            Value buffer, Type expected,
                                            bool orF32) {
  if (!buffer || getElementType(buffer) == expected ||
      (orF32 && getElementType(buffer).isF32()))
    return success();
  return op->emitOpError() << name << " must be of " << expected
                           << (orF32 && !expected.isF32() ? " or f32" : "")
                           << " elements, found " << getElementType(buffer);
}

LogicalResult mlir::exec::verifyMatrix(Operation *op, StringRef name,
                                       Value buffer, int64_t rows,
                                       CheckedSize cols, int64_t ld,
                                       StringRef ldName) {
  // The runtime computes with it even where one row needs none.
  if (ld < 0 || ld > kMaxElements)
    return op->emitOpError() << ldName << " must be from 0 to " << kMaxElements
                             << ", found " << ld;
  if (!buffer)
    return success();
  if (rows > 1 && !cols.isAtMost(ld))
    return op->emitOpError() << ldName << " is " << ld << ", less than the "
                             << cols.toString() << " columns of " << name;
  CheckedSize expected = optimus_support::matrixExtent(rows, cols, ld);
  if (!expected.isAtMost(getExtent(buffer)))
    return op->emitOpError()
           << name << " needs " << expected.toString() << " elements for ["
           << rows << ", " << cols.toString() << "] with leading dimension "
           << ld << ", but its buffer has " << getExtent(buffer);
  return success();
}

FailureOr<int64_t> mlir::exec::verifyAxes(Operation *op,
                                          ArrayRef<Attribute> axes) {
  optimus::MeshOp mesh = optimus::getMesh(op);
  SmallVector<StringRef> names;
  for (Attribute attribute : axes) {
    StringRef axis = cast<StringAttr>(attribute).getValue();
    if (!mesh || !mesh.getAxisSize(axis))
      return op->emitOpError() << "names axis \"" << axis << "\", which "
                               << (mesh ? "the mesh does not have"
                                        : "needs a mesh in the module");
    if (llvm::is_contained(names, axis))
      return op->emitOpError() << "names axis \"" << axis << "\" twice";
    names.push_back(axis);
  }
  return mesh ? mesh.getProduct(names) : 1;
}
