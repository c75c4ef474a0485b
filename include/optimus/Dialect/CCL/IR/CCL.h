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

/// The axes that shard a dimension of a local type.
SmallVector<StringRef> getDimAxes(Type type, int64_t dim);

/// The type of one rank's part: dimensions are padded to `paddedShape` and
/// sharded as `sharding` says; plain if that leaves it whole and replicated.
RankedTensorType getLocalType(ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> paddedShape, Type elementType,
                              optimus::ShardingAttr sharding,
                              optimus::MeshOp mesh);

/// The most panels of a product: its commands are as many.
inline constexpr int64_t kMostPanels = 64;

/// How a distributed product runs on a mesh, derived from the types of its
/// tensors alone.
struct ProductForm {
  enum Tensor { A = 0, B = 1, C = 2 };
  Tensor stationary;
  /// The axis over which each of A, B and C moves; empty where it does not.
  StringRef moves[3];
  int64_t panels;
  /// The least common multiple of the sizes of these axes: of so many blocks
  /// of the streamed index each belongs to one rank in either tensor.
  int64_t blocks = 1;

  /// Whether each panel belongs to one rank in either tensor: as many whole
  /// panels make up a block. Else a panel has a slice of every block.
  bool hasOwners() const { return panels % blocks == 0; }
};

/// Whether a streamed index of `extent` elements, in `blocks` blocks that each
/// belong to one rank, divides into `panels` panels.
bool canDivideIntoPanels(int64_t extent, int64_t blocks, int64_t panels);

/// How the groups of dimensions (0 M, 1 K, 2 N) of a product's tensors (A, B,
/// C) are sharded. Axes of one rank shard nothing.
struct ProductSharding {
  /// The axes that shard group g alike in both of its tensors.
  SmallVector<StringRef> shared[3];
  /// The axis that shards group g in tensor t beyond `shared`: the fastest of
  /// its dimension. Empty where there is none.
  StringRef axes[3][3];
  /// The dimension of tensor t that `axes[t][g]` shards, or -1.
  int64_t dims[3][3];

  bool isAlike(int group) const;

  /// The tensor that can stay in place: exactly the group that it lacks is
  /// sharded differently in the two others. A moving result is summed over its
  /// axis, so its axis must shard K. Nothing if no tensor can stay, or none
  /// must move.
  std::optional<ProductForm::Tensor> getStationary() const;

  /// The axes over which the result holds partial sums while `stationary`
  /// stays: the axes of K over which no tensor is summed on its way.
  SmallVector<StringRef> getUnreduced(ProductForm::Tensor stationary) const;
};

/// The axes that shard dimension `dim` of tensor `tensor` (0 A, 1 B, 2 C).
using GetProductAxes =
    llvm::function_ref<SmallVector<StringRef>(int tensor, int64_t dim)>;

/// Reads the shardings of A [M…, K…] and B [K…, N…] (or transposed) and C,
/// whose groups have the given numbers of dimensions. Fails where a group is
/// sharded by more than one axis beyond what is shared, or along different
/// dimensions.
FailureOr<ProductSharding> getProductSharding(int64_t numM, int64_t numK,
                                              int64_t numN, bool transposeA,
                                              bool transposeB,
                                              optimus::MeshOp mesh,
                                              GetProductAxes getAxes);

/// The same of `ccl.matmul`, from the types of its tensors.
FailureOr<ProductSharding> getProductSharding(MatmulOp op);

/// The form of `ccl.matmul`, or failure with no message.
FailureOr<ProductForm> getProductForm(MatmulOp op);

/// On neighbours that are expanded into panels together, with one number:
/// `ccl.matmul` and each `optimus.add` of their results. What they mean does
/// not change.
inline constexpr llvm::StringLiteral kProductGroup = "ccl.group";

/// `op` and the operations after it that are marked as one group with it; `op`
/// alone where it has no mark.
SmallVector<Operation *> getProductGroup(Operation *op);

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_IR_CCL_H
