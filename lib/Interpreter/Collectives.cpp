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
/// `run(group, index in it, result)`.
template <typename Op, typename Fn>
LogicalResult interpretGroups(Op op, Ranks &ranks, Fn &&run) {
  SmallVector<Tensor> results = makeResults(op.getResult(), ranks);
  for (ArrayRef<int64_t> group : ranks.getGroups(op.getAxis()))
    for (auto [index, rank] : llvm::enumerate(group))
      run(group, index, results[rank]);
  ranks.set(op.getResult(), std::move(results));
  return success();
}

template <typename Model, typename Op>
using CollectiveModel = InterpretableOpInterface::ExternalModel<Model, Op>;

struct AllReduceModel : CollectiveModel<AllReduceModel, ccl::AllReduceOp> {
  LogicalResult interpret(Operation *operation, Ranks &ranks) const {
    auto op = cast<ccl::AllReduceOp>(operation);
    (void)interpretGroups(
        op, ranks, [&](ArrayRef<int64_t> group, int64_t, Tensor &result) {
          result = sumOver(group, op.getInput(), ranks);
        });
    return checkIdentity(op, ranks);
  }
};

struct ReduceScatterModel
    : CollectiveModel<ReduceScatterModel, ccl::ReduceScatterOp> {
  LogicalResult interpret(Operation *operation, Ranks &ranks) const {
    auto op = cast<ccl::ReduceScatterOp>(operation);
    int64_t dim = op.getDim();
    (void)interpretGroups(
        op, ranks, [&](ArrayRef<int64_t> group, int64_t index, Tensor &result) {
          int64_t count = result.shape[dim];
          copyAlong(dim, count, sumOver(group, op.getInput(), ranks),
                    index * count, result, 0);
        });
    return checkIdentity(op, ranks);
  }
};

/// Puts the parts of a group side by side along a dimension.
template <typename Op>
LogicalResult gather(Op op, int64_t dim, Ranks &ranks) {
  return interpretGroups(
      op, ranks, [&](ArrayRef<int64_t> group, int64_t, Tensor &result) {
        for (auto [index, rank] : llvm::enumerate(group)) {
          const Tensor &part = ranks.get(op.getInput(), rank);
          int64_t count = part.shape[dim];
          copyAlong(dim, count, part, 0, result, index * count);
        }
      });
}

struct AllGatherModel : CollectiveModel<AllGatherModel, ccl::AllGatherOp> {
  LogicalResult interpret(Operation *operation, Ranks &ranks) const {
    auto op = cast<ccl::AllGatherOp>(operation);
    if (failed(gather(op, op.getDim(), ranks)))
      return failure();
    return checkIdentity(op, ranks);
  }
};

struct SliceModel : CollectiveModel<SliceModel, ccl::SliceOp> {
  LogicalResult interpret(Operation *operation, Ranks &ranks) const {
    auto op = cast<ccl::SliceOp>(operation);
    int64_t dim = op.getDim();
    (void)interpretGroups(
        op, ranks, [&](ArrayRef<int64_t> group, int64_t index, Tensor &result) {
          int64_t count = result.shape[dim];
          copyAlong(dim, count, ranks.get(op.getInput(), group[index]),
                    index * count, result, 0);
        });
    return checkIdentity(op, ranks);
  }
};

} // namespace

void mlir::optimus::attachCollectives(MLIRContext &context) {
  ccl::AllReduceOp::attachInterface<AllReduceModel>(context);
  ccl::ReduceScatterOp::attachInterface<ReduceScatterModel>(context);
  ccl::AllGatherOp::attachInterface<AllGatherModel>(context);
  ccl::SliceOp::attachInterface<SliceModel>(context);
}
