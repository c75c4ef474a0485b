//===- DistributedProducts.cpp - Products of sharded matrices ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A distributed product is executed by its serial semantics: the whole, padded
// operands are multiplied and each rank gets its part. The panels of the
// stationary form would give the same: this follows from the shardings of the
// three tensors, checked by the operation's verifier.
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"
#include "MatrixProduct.h"

#include "optimus/Dialect/CCL/IR/CCL.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::ShardLayout;

namespace {

enum Group { M = 0, K = 1, N = 2 };

class DistributedProduct {
public:
  DistributedProduct(ccl::MatmulOp op, Ranks &ranks) : op(op), ranks(ranks) {}

  LogicalResult run() {
    Tensor a = ranks.assemblePadded(op.getA());
    Tensor b = ranks.assemblePadded(op.getB());
    Tensor result = Tensor::zeros(getPaddedShape(op.getResult()));
    MatrixView left{a, getSize(a, M, 0), getSize(a, K, 0), op.getTransposeA()};
    MatrixView right{b, getSize(b, K, 1), getSize(b, N, 1), op.getTransposeB()};
    int64_t bad = findContributingPadding(left, right, getPaddingOfK());
    if (bad >= 0)
      return op.emitOpError("contracts over padding that is not zero in "
                            "either operand, at contracted index ")
             << bad;
    addProduct(left, right, result);
    setResult(result);
    return success();
  }

private:
  SmallVector<int64_t> getPaddedShape(Value value) {
    ShardLayout layout = ranks.getPaddedLayout(value.getType());
    return SmallVector<int64_t>(layout.shape.begin(), layout.shape.end());
  }

  /// The dimensions of a group in tensor 0 (a), 1 (b) or 2 (the result), as
  /// [first, last).
  std::pair<int64_t, int64_t> getDims(Group group, int tensor) {
    Value values[] = {op.getA(), op.getB(), op.getResult()};
    auto rankOf = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getRank();
    };
    int64_t k = op.getContracting();
    int64_t sizes[] = {rankOf(values[0]) - k, k, rankOf(values[1]) - k};
    bool leads[3][3] = {{!op.getTransposeA(), op.getTransposeA(), false},
                        {false, !op.getTransposeB(), op.getTransposeB()},
                        {true, false, false}};
    int64_t rank = rankOf(values[tensor]);
    return leads[tensor][group] ? std::make_pair(int64_t(0), sizes[group])
                                : std::make_pair(rank - sizes[group], rank);
  }

  int64_t getSize(const Tensor &value, Group group, int tensor) {
    auto [first, last] = getDims(group, tensor);
    int64_t size = 1;
    for (int64_t dim = first; dim < last; ++dim)
      size *= value.shape[dim];
    return size;
  }

  /// For each contracted index of the padded operands, whether it is padding.
  std::vector<bool> getPaddingOfK() {
    ShardLayout layout = ranks.getLayout(op.getA().getType());
    SmallVector<int64_t> padded = getPaddedShape(op.getA());
    auto [first, last] = getDims(K, 0);
    std::vector<bool> padding = {false};
    for (int64_t dim = first; dim < last; ++dim) {
      std::vector<bool> inner;
      for (bool outer : padding)
        for (int64_t i = 0; i < padded[dim]; ++i)
          inner.push_back(outer || i >= layout.shape[dim]);
      padding = std::move(inner);
    }
    return padding;
  }

  void setResult(const Tensor &result) {
    const optimus_support::Mesh &mesh = ranks.getMesh();
    ShardLayout layout = ranks.getPaddedLayout(op.getResult().getType());
    SmallVector<int> unreduced =
        ranks.getUnreducedAxes(op.getResult().getType());
    SmallVector<Tensor> parts;
    for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
      Tensor &part = parts.emplace_back(Tensor::zeros(layout.localShape));
      // Of partial sums, the first is the sum and the others are zero.
      if (llvm::all_of(unreduced, [&](int axis) {
            return mesh.coordinate(rank, axis) == 0;
          }))
        layout.slice(mesh, rank, result.elements.data(), part.elements.data());
    }
    ranks.set(op.getResult(), std::move(parts));
  }

  ccl::MatmulOp op;
  Ranks &ranks;
};

LogicalResult executeTogether(ccl::MatmulOp op, Ranks &ranks) {
  return DistributedProduct(op, ranks).run();
}

} // namespace

void mlir::optimus::attachDistributedProducts(MLIRContext &context) {
  RanksModel<ccl::MatmulOp, executeTogether>::attach(context);
}
