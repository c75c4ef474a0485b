//===- DimensionGroups.h - Dimensions that are one --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_DIMENSIONGROUPS_H
#define OPTIMUS_ANALYSIS_DIMENSIONGROUPS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::optimus {

/// Dimensions of values, in groups: those that an operation's rule makes one
/// factor are of one group.
///
///   %y = matmul %x, %w -> {x.0, y.0}, {x.1, w.0}, {w.1, y.1}
class DimensionGroups {
public:
  /// A group for each dimension of a value that is a tensor.
  void add(Value value);
  /// Adds the results of `op`, and unites what its rule makes one factor.
  void addOperation(Operation *op);
  /// Makes the dimensions of two values of one shape the same.
  void unite(Value a, Value b);

  /// The group of a dimension: a number below `size()`, and of all that the
  /// dimensions of the group could have, the least.
  int64_t find(Value value, int64_t dim) const {
    return find(firstNodes.lookup(value) + dim);
  }
  int64_t size() const { return parents.size(); }

private:
  int64_t find(int64_t node) const;
  void unite(int64_t a, int64_t b);

  llvm::DenseMap<Value, int64_t> firstNodes;
  mutable SmallVector<int64_t> parents;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_DIMENSIONGROUPS_H
