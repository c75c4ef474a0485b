//===- CCL.h - The ccl dialect ----------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_IR_CCL_H
#define OPTIMUS_DIALECT_CCL_IR_CCL_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/TensorEncoding.h"

#include "optimus/Dialect/CCL/IR/CCLDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/CCL/IR/CCLAttrs.h.inc"

namespace mlir::ccl {
/// What collectives write: the order of messages.
struct CommunicationResource
    : public SideEffects::Resource::Base<CommunicationResource> {
  StringRef getName() final { return "Communication"; }
};
} // namespace mlir::ccl

#define GET_OP_CLASSES
#include "optimus/Dialect/CCL/IR/CCLOps.h.inc"

namespace mlir::ccl {

/// The encoding of a local tensor type, or null: then it is whole, replicated
/// and unpadded.
LocalAttr getLocal(Type type);

/// Checks the local types of an operation's operands and results against its
/// module's mesh, which must exist: C3 and C4 of `#ccl.local`.
LogicalResult verifyLocalTypes(Operation *op);

/// The shape of the whole tensor that a local type is a part of.
SmallVector<int64_t> getGlobalShape(Type type);

/// The axes that cut a dimension of a local type.
SmallVector<StringRef> getDimAxes(Type type, int64_t dim);

/// The type of one rank's part: dimensions are padded to `paddedShape` and cut
/// as `sharding` says; plain if that leaves it whole and replicated.
RankedTensorType getLocalType(ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> paddedShape, Type elementType,
                              optimus::ShardingAttr sharding,
                              optimus::MeshOp mesh);

/// How a distributed product runs on a mesh, derived from the types of its
/// tensors alone.
struct ProductForm {
  enum Tensor { A = 0, B = 1, C = 2 };
  Tensor stationary;
  /// The axis over which each of A, B and C moves; empty for the stationary
  /// one and where the axis has one rank or does not exist.
  StringRef moves[3];
  int64_t panels;
};

/// The axis that cuts the groups (M, K, N) of a product's tensors: element
/// [t][g] for tensor t (A, B, C) and group g (0 M, 1 K, 2 N); empty where the
/// group is whole there or is not the tensor's.
struct ProductAxes {
  StringRef axes[3][3];
  /// The dimension of each tensor in each group that is cut, or -1.
  int64_t dims[3][3];
};

/// Reads the axes of a product's tensors from their types; fails when a group
/// is cut by more than one axis.
FailureOr<ProductAxes> getProductAxes(Type a, Type b, Type c,
                                      int64_t contracting, bool transposeA,
                                      bool transposeB);

/// The form of `ccl.matmul`, or failure with no message.
FailureOr<ProductForm> getProductForm(MatmulOp op);

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_IR_CCL_H
