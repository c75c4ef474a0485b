//===- LocalValues.h - The parts of whole values, in every layout made -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_OPTIMUSTOCCL_LOCALVALUES_H
#define OPTIMUS_CONVERSION_OPTIMUSTOCCL_LOCALVALUES_H

#include "optimus/Analysis/DimensionClasses.h"
#include "optimus/Dialect/CCL/IR/CCL.h"

namespace mlir::optimus {

/// One step from a layout to another.
struct LayoutStep {
  enum Kind { AllReduce, ReduceScatter, AllGather, Slice } kind;
  StringRef axis;
  /// Not of an all-reduce.
  int64_t dim;
  /// The layout after the step.
  ShardingAttr result;
};

/// The steps from one layout of a value to another: partial sums are summed
/// first (into parts where an axis shards a dimension afterwards), then parts
/// are put together as far as they must be, then sharded. Nothing if `to` is
/// unreduced over an axis that `from` is not.
///
///   [{row}, {}] unreduced {col} -> [{row, col}, {}]: reduce_scatter over col
///   [{row}, {}] unreduced {col} -> [{row}, {}]: all_reduce over col
///   [{}, {}] unreduced {col, row} -> [{}, {row}]: reduce_scatter over row,
///   then all_reduce of that part over col
///   [{row}, {col}] -> [{}, {col}]: all_gather over row
///   [{row}, {}] -> [{col}, {}]: all_gather over row, slice over col
std::optional<SmallVector<LayoutStep>> planLayout(ShardingAttr from,
                                                  ShardingAttr to);

/// For each whole value of the partitioned function, the local values in its
/// place, by layout.
class LocalValues {
public:
  LocalValues(OpBuilder &builder, MeshOp mesh, const DimensionClasses &classes,
              bool reducesWide)
      : builder(builder), mesh(mesh), classes(classes),
        reducesWide(reducesWide) {}

  /// The type of the part of `whole` in a layout.
  RankedTensorType getType(Value whole, ShardingAttr layout) const;

  /// The element type of what ranks make of `whole` before they add it up.
  Type getPartialSumType(Value whole) const;

  void add(Value whole, ShardingAttr layout, Value local) {
    layouts[whole].push_back({layout, local});
  }

  /// The local values that stand for `whole`.
  SmallVector<Value> getLocals(Value whole) const;

  /// The layout in which `whole` exists as partial sums only, or null where it
  /// is complete already or its partial sums are in several layouts.
  ShardingAttr getPartialSumLayout(Value whole) const;

  /// True if a layout of `whole` exists already.
  bool has(Value whole, ShardingAttr layout) const;

  /// True if `get` can make a layout of `whole`: no partial sums are left where
  /// it is complete already.
  bool canReach(Value whole, ShardingAttr layout) const;

  /// `whole` in a layout; made from the one that needs the fewest collectives.
  /// The layout must be within reach of one that exists.
  Value get(Value whole, ShardingAttr layout, Location loc);

  /// As `get`, but a layout that must be made is kept until the next one is
  /// made so, for another value: long enough for products that follow each
  /// other, not from the forward pass to the backward.
  Value getTransient(Value whole, ShardingAttr layout, Location loc);

  /// `local`, which is in layout `from`, in layout `to`.
  Value convert(Value local, ArrayRef<int64_t> paddedShape, ShardingAttr from,
                ShardingAttr to, Location loc);

  /// A sum of all ranks' parts in the element type of its whole value.
  Value complete(Value sum, Type elementType);

  int64_t getNumCollectives() const { return numCollectives; }

private:
  struct Layout {
    ShardingAttr sharding;
    Value local;
  };

  Value convert(Value whole, const Layout &nearest, ShardingAttr to,
                Location loc);
  /// `elementType` is that of the whole value.
  Value convert(Value local, ArrayRef<int64_t> paddedShape, Type elementType,
                ShardingAttr from, ShardingAttr to, Location loc);

  OpBuilder &builder;
  MeshOp mesh;
  const DimensionClasses &classes;
  bool reducesWide;
  /// The layout of a value from which another needs the fewest collectives.
  const Layout &getNearest(Value whole, ShardingAttr layout);

  llvm::DenseMap<Value, SmallVector<Layout, 2>> layouts;
  Value transientWhole;
  Layout transient;
  int64_t numCollectives = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_OPTIMUSTOCCL_LOCALVALUES_H
