//===- Collectives.cpp - Collectives and slices -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"
#include "LocalOps.h"

#include "optimus/Dialect/CCL/IR/CCL.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// A tensor as [outer, extent, inner] around dimension `dim`.
struct Strides {
  Strides(ArrayRef<int64_t> shape, int64_t dim) : extent(shape[dim]) {
    for (int64_t size : shape.take_front(dim))
      outer *= size;
    for (int64_t size : shape.drop_front(dim + 1))
      inner *= size;
  }
  int64_t outer = 1, extent, inner = 1;
};

/// Copies `count` indices of dimension `dim` from `from` on in `source` to
/// those from `to` on in `target`.
void copyAlong(int64_t dim, int64_t count, const Tensor &source, int64_t from,
               Tensor &target, int64_t to) {
  Strides s(source.shape, dim), t(target.shape, dim);
  for (int64_t outer = 0; outer < s.outer; ++outer)
    std::copy_n(source.elements.begin() + (outer * s.extent + from) * s.inner,
                count * s.inner,
                target.elements.begin() + (outer * t.extent + to) * t.inner);
}

/// The sum over a group, in rank order.
Tensor sumOver(ArrayRef<int64_t> group, Value value, const Ranks &ranks) {
  Tensor sum = ranks.get(value, group.front());
  for (int64_t rank : group.drop_front()) {
    const Tensor &part = ranks.get(value, rank);
    for (int64_t i = 0; i < sum.getNumElements(); ++i)
      sum[i] += part[i];
  }
  return sum;
}

SmallVector<Tensor> makeResults(Value result, const Ranks &ranks) {
  return SmallVector<Tensor>(
      ranks.getNumRanks(),
      Tensor::zeros(cast<RankedTensorType>(result.getType()).getShape()));
}

/// Gives the ranks of each group of an axis their results, from
/// `run(group, index in it, result)`. The whole tensor stays the same.
template <typename Op, typename Fn>
LogicalResult executeGroups(Op op, Ranks &ranks, Fn &&run) {
  SmallVector<Tensor> results = makeResults(op.getResult(), ranks);
  for (ArrayRef<int64_t> group : ranks.getGroups(op.getAxis()))
    for (auto [index, rank] : llvm::enumerate(group))
      run(group, static_cast<int64_t>(index), results[rank]);
  ranks.set(op.getResult(), std::move(results));
  return checkIdentity(op, ranks);
}

using Members = ArrayRef<int64_t>;

LogicalResult executeTogether(ccl::AllReduceOp op, Ranks &ranks) {
  return executeGroups(op, ranks, [&](Members group, int64_t, Tensor &result) {
    result = sumOver(group, op.getInput(), ranks);
  });
}

LogicalResult executeTogether(ccl::ReduceScatterOp op, Ranks &ranks) {
  int64_t dim = op.getDim();
  return executeGroups(
      op, ranks, [&](Members group, int64_t index, Tensor &result) {
        int64_t count = result.shape[dim];
        copyAlong(dim, count, sumOver(group, op.getInput(), ranks),
                  index * count, result, 0);
      });
}

/// Puts the parts of a group side by side along a dimension.
LogicalResult executeTogether(ccl::AllGatherOp op, Ranks &ranks) {
  int64_t dim = op.getDim();
  return executeGroups(op, ranks, [&](Members group, int64_t, Tensor &result) {
    for (auto [index, rank] : llvm::enumerate(group)) {
      const Tensor &part = ranks.get(op.getInput(), rank);
      int64_t count = part.shape[dim];
      copyAlong(dim, count, part, 0, result, index * count);
    }
  });
}

LogicalResult executeTogether(ccl::SliceOp op, Ranks &ranks) {
  int64_t dim = op.getDim();
  return executeGroups(
      op, ranks, [&](Members group, int64_t index, Tensor &result) {
        int64_t count = result.shape[dim];
        copyAlong(dim, count, ranks.get(op.getInput(), group[index]),
                  index * count, result, 0);
      });
}

} // namespace

void mlir::optimus::attachCollectives(MLIRContext &context) {
  RanksModel<ccl::AllReduceOp, executeTogether>::attach(context);
  RanksModel<ccl::ReduceScatterOp, executeTogether>::attach(context);
  RanksModel<ccl::AllGatherOp, executeTogether>::attach(context);
  RanksModel<ccl::SliceOp, executeTogether>::attach(context);
}
