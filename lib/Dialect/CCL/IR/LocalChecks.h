//===- LocalChecks.h - What verifiers ask of local types --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_CCL_IR_LOCALCHECKS_H
#define OPTIMUS_LIB_DIALECT_CCL_IR_LOCALCHECKS_H

#include "optimus/Dialect/CCL/IR/CCL.h"

namespace mlir::ccl {

inline ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

inline Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// C1 of every collective: the mesh has the axis. Gives its size. Checks that
/// local types fit the mesh, too.
inline FailureOr<int64_t> expectAxis(Operation *op, StringRef axis) {
  optimus::MeshOp mesh = optimus::getMesh(op);
  if (!mesh)
    return op->emitOpError("C1: expected a mesh in the module, found none");
  std::optional<int64_t> size = mesh.getAxisSize(axis);
  if (!size)
    return op->emitOpError("C1: expected an axis of @")
           << mesh.getSymName() << ", found \"" << axis << '"';
  if (failed(verifyLocalTypes(op)))
    return failure();
  return *size;
}

/// The sharding of a tensor, replicated where its type says nothing.
inline optimus::ShardingAttr shardingOf(Operation *op, Value value) {
  if (LocalAttr local = getLocal(value.getType()))
    return local.getSharding();
  return optimus::ShardingAttr::getReplicated(
      FlatSymbolRefAttr::get(optimus::getMesh(op).getSymNameAttr()),
      shapeOf(value).size());
}

} // namespace mlir::ccl

#endif // OPTIMUS_LIB_DIALECT_CCL_IR_LOCALCHECKS_H
