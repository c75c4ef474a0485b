//===- Partitioner.h - Rewrites the operations of one function -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H
#define OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H

#include "LocalValues.h"

namespace mlir::optimus {

/// Rewrites the operations of one function, in order.
class Partitioner {
public:
  Partitioner(OpBuilder &builder, MeshOp mesh, const DimensionClasses &classes)
      : builder(builder), mesh(mesh), classes(classes),
        values(builder, mesh, classes) {}

  LogicalResult partition(Operation *op);
  LocalValues &getValues() { return values; }

  int64_t numLocal = 0;
  int64_t numDistributed = 0;
  int64_t numDecomposed = 0;

private:
  using Axes = SmallVector<StringRef>;

  /// Runs on parts, as the rule says.
  LogicalResult partitionByRule(Operation *op);
  /// The operation on other operands, with results in the given layouts.
  void cloneLocally(Operation *op, ArrayRef<Value> operands,
                    ArrayRef<ShardingAttr> layouts);
  /// Each factor's axes: a contracted one's come from the operands, another's
  /// from the results.
  SmallVector<Axes> getFactorAxes(Operation *op, const ShardingRule &rule);
  LogicalResult partitionConstant(Operation *op);

  LogicalResult partition(MatmulOp op);

  // Operations that reduce in the middle. Each fails, without a message, where
  // what it reduces is whole: then its rule will do.
  LogicalResult decompose(Operation *op);
  LogicalResult decompose(LayerNormOp op);
  LogicalResult decompose(LayerNormGradOp op);
  LogicalResult decompose(EmbeddingOp op);
  LogicalResult decompose(EmbeddingGradOp op);
  LogicalResult decompose(GlobalNormOp op);
  LogicalResult decompose(HeadLossOp op);
  LogicalResult decompose(HeadLossGradOp op);

  /// How the operands of a head and its gradient lie.
  struct HeadLayout {
    SmallVector<Axes> h, table, targets;
    /// The axes over which sums over tokens are unreduced.
    Axes tokens;
    /// The axis that shares the vocabulary; empty where it is whole.
    StringRef axis;
  };
  template <typename Op>
  HeadLayout getHeadLayout(Op op);

  /// The layout in which rows are normalised: one axis may cut them. Fails
  /// where rows are whole and unpadded.
  FailureOr<SmallVector<Axes>> getNormLayout(Value result);

  ShardingAttr getLayout(ArrayRef<Axes> dims,
                         ArrayRef<StringRef> unreduced = {});
  /// The type of a tensor with the rows of `whole`, and a last dimension of
  /// which this rank's part is `layout`'s.
  Type getRowType(Value whole, int64_t last, ShardingAttr layout);
  /// `local`, a tensor as `getRowType` has it, in another layout.
  Value convertRows(Value whole, Value local, ShardingAttr from,
                    ShardingAttr to);
  SmallVector<int64_t> getRowShape(ArrayRef<int64_t> shape, int64_t last);

  /// Lets `local` stand for `whole`, in a layout; it gets its role.
  void set(Value whole, ShardingAttr layout, Value local);

  Value get(Value whole, ShardingAttr layout) {
    return values.get(whole, layout, loc);
  }
  Value get(Value whole, ArrayRef<Axes> dims) {
    return get(whole, getLayout(dims));
  }
  /// `whole` as it is sharded.
  Value get(Value whole) { return get(whole, getSharding(whole)); }
  Type getType(Value whole, ShardingAttr layout) {
    return values.getType(whole, layout);
  }

  OpBuilder &builder;
  MeshOp mesh;
  const DimensionClasses &classes;
  LocalValues values;
  Location loc = builder.getUnknownLoc();
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H
