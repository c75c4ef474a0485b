//===- Partitioner.h - Rewrites the operations of one function --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H
#define OPTIMUS_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H

#include "optimus/Conversion/OptimusToCCL/LocalValues.h"

namespace mlir::optimus {

/// Rewrites the operations of one function, in order. On row:2,col:2:
///
///   %y = gelu %x: [{row}, {col}]              -> gelu on the part, no
///   collective %y = sum_leading %x: [{row}, {}]          -> sum_leading,
///   unreduced {row} %y = matmul %x, %w, all [{row}, {col}]    -> ccl.matmul, c
///   stationary %y = matmul %x: [{row}, {}], %w: [{}, {}] -> matmul on parts,
///   [{row}, {}]
class Partitioner {
public:
  using Axes = SmallVector<StringRef>;

  Partitioner(OpBuilder &builder, MeshOp mesh, const DimensionClasses &classes,
              bool reducesWide)
      : builder(builder), mesh(mesh), classes(classes),
        values(builder, mesh, classes, reducesWide) {}

  LogicalResult partition(Operation *op);

  OpBuilder &getBuilder() { return builder; }
  MeshOp getMesh() const { return mesh; }
  const DimensionClasses &getClasses() const { return classes; }
  LocalValues &getValues() { return values; }
  /// The location of the operation that is partitioned.
  Location getLoc() const { return loc; }

  ShardingAttr getLayout(ArrayRef<Axes> dims,
                         ArrayRef<StringRef> unreduced = {}) const;
  Type getType(Value whole, ShardingAttr layout) const {
    return values.getType(whole, layout);
  }

  Value get(Value whole, ShardingAttr layout) {
    return values.get(whole, layout, loc);
  }
  Value get(Value whole, ArrayRef<Axes> dims) {
    return get(whole, getLayout(dims));
  }
  /// `whole` as it is sharded.
  Value get(Value whole) { return get(whole, getSharding(whole)); }

  /// Lets `local` stand for `whole`, in a layout; it gets its role.
  void set(Value whole, ShardingAttr layout, Value local);

  /// The operation on other operands, with results in the given layouts.
  void cloneLocally(Operation *op, ArrayRef<Value> operands,
                    ArrayRef<ShardingAttr> layouts);

  int64_t getNumLocal() const { return numLocal; }
  int64_t getNumDistributed() const { return numDistributed; }
  int64_t getNumDecomposed() const { return numDecomposed; }

private:
  /// What `partition` does but for locations.
  LogicalResult rewrite(Operation *op);
  /// Operations among `created` with the results of `op` get its location; the
  /// others get that of a part of it.
  void setLocations(Operation *op, ArrayRef<Operation *> created);
  /// Adds partial sums of the same layout locally, so that their sum is reduced
  /// once. Fails where they are not.
  LogicalResult addPartialSums(SumOpInterface op);
  /// Runs on parts, as the rule says.
  LogicalResult partitionByRule(Operation *op);
  /// Each factor's axes: a contracted one's come from the operands, another's
  /// from the results.
  SmallVector<Axes> getFactorAxes(Operation *op, const ShardingRule &rule);
  LogicalResult partitionConstant(Operation *op);
  LogicalResult partitionProduct(MatmulOp op);
  /// What would move in panels is gathered before a local product, or reduced
  /// after it.
  LogicalResult partitionWhole(MatmulOp op,
                               const ccl::ProductSharding &sharding);

  OpBuilder &builder;
  MeshOp mesh;
  const DimensionClasses &classes;
  LocalValues values;
  Location loc = builder.getUnknownLoc();
  int64_t numLocal = 0, numDistributed = 0, numDecomposed = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_OPTIMUSTOCCL_PARTITIONER_H
