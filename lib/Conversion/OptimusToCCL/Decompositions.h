//===- Decompositions.h - What decompositions share -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_DECOMPOSITIONS_H
#define OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_DECOMPOSITIONS_H

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h"
#include "optimus/Conversion/OptimusToCCL/Partitioner.h"

namespace mlir::optimus {

using Axes = Partitioner::Axes;

/// The axes of each dimension, as `whole` is sharded.
inline SmallVector<Axes> getDims(Value whole) {
  ShardingAttr sharding = getSharding(whole);
  SmallVector<Axes> dims;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    dims.push_back(sharding.getDimAxes(dim));
  return dims;
}

/// All axes that shard some dimension.
inline Axes getShardingAxes(ArrayRef<Axes> dims) {
  Axes sharding;
  for (const Axes &axes : dims)
    llvm::append_range(sharding, axes);
  return sharding;
}

/// `axes` without those of `others`.
inline Axes without(Axes axes, ArrayRef<StringRef> others) {
  llvm::erase_if(
      axes, [&](StringRef axis) { return llvm::is_contained(others, axis); });
  return axes;
}

inline SmallVector<Axes> append(ArrayRef<Axes> dims, Axes last) {
  SmallVector<Axes> all(dims);
  all.push_back(std::move(last));
  return all;
}

/// Gives an operation its decomposition.
template <typename Op, LogicalResult (*function)(Op, Partitioner &)>
struct Decomposition
    : DecomposableOpInterface::ExternalModel<Decomposition<Op, function>, Op> {
  LogicalResult decompose(Operation *op, Partitioner &partitioner) const {
    return function(cast<Op>(op), partitioner);
  }

  static void attach(MLIRContext &context) {
    Op::template attachInterface<Decomposition>(context);
  }
};

// The families of operations that have one.
void attachNormDecompositions(MLIRContext &context);
void attachTokenDecompositions(MLIRContext &context);
void attachOptimizerDecompositions(MLIRContext &context);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_DECOMPOSITIONS_H
