//===- DistributedProducts.cpp - Products of cut matrices  -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A distributed product is executed by its meaning: the whole, padded operands
// are multiplied and each rank gets its part. That the panels of the
// stationary form would give the same follows from where the three tensors are
// cut, which is checked here.
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
constexpr StringLiteral kTensors[] = {"a", "b", "the result"};
constexpr StringLiteral kGroups[] = {"M", "K", "N"};

class DistributedProduct {
public:
  DistributedProduct(ccl::MatmulOp op, Ranks &ranks) : op(op), ranks(ranks) {}

  LogicalResult run() {
    if (failed(checkForm()))
      return failure();
    Value values[] = {op.getA(), op.getB()};
    for (auto [index, value] : llvm::enumerate(values))
      if (!ranks.getUnreducedAxes(value.getType()).empty())
        return op.emitOpError("expected complete operands, but ")
               << kTensors[index] << " is unreduced: " << value.getType();
    Tensor a = ranks.assemblePadded(op.getA());
    Tensor b = ranks.assemblePadded(op.getB());
    Tensor result = Tensor::zeros(getPaddedShape(op.getResult()));
    if (failed(checkShapes(a, b, result)))
      return failure();

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

  LogicalResult checkShapes(const Tensor &a, const Tensor &b,
                            const Tensor &result) {
    const Tensor *tensors[] = {&a, &b, &result};
    std::pair<int, int> pairs[3] = {{0, 2}, {0, 1}, {1, 2}}; // of M, K, N
    for (Group group : {M, K, N}) {
      auto [x, y] = pairs[group];
      auto shape = [&](int tensor) {
        auto [first, last] = getDims(group, tensor);
        return ArrayRef<int64_t>(tensors[tensor]->shape)
            .slice(first, last - first);
      };
      if (shape(x) != shape(y))
        return op.emitOpError("expected ")
               << kTensors[x] << " and " << kTensors[y]
               << " to have the same padded extents in " << kGroups[group]
               << ", found [" << shape(x) << "] and [" << shape(y) << ']';
    }
    return success();
  }

  /// Checks that panels reach every rank that needs them: of the stationary
  /// tensor's two groups, each is cut alike in the other tensor that has it;
  /// the group it contracts, if any, is summed over the axis that cuts it by
  /// the reduction of the result to its owners.
  LogicalResult checkForm() {
    FailureOr<ccl::ProductForm> form = ccl::getProductForm(op);
    FailureOr<ccl::ProductAxes> axes = ccl::getProductAxes(
        op.getA().getType(), op.getB().getType(), op.getResult().getType(),
        op.getContracting(), op.getTransposeA(), op.getTransposeB());
    if (failed(form) || failed(axes))
      return op.emitOpError("has no form of distributed product");
    auto axisOf = [&](int tensor, Group group) {
      StringRef axis = axes->axes[tensor][group];
      std::optional<int> index = ranks.getMesh().findAxis(axis.str());
      return index && ranks.getMesh().axisSize(*index) > 1 ? axis : StringRef();
    };
    auto expectAlike = [&](int x, Group groupX, int y,
                           Group groupY) -> LogicalResult {
      if (axisOf(x, groupX) == axisOf(y, groupY))
        return success();
      return op.emitOpError("with stationary \"")
             << op.getStationary() << "\": expected the axis that cuts "
             << kGroups[groupX] << " of " << kTensors[x] << ", \""
             << axisOf(x, groupX) << "\", to cut " << kGroups[groupY] << " of "
             << kTensors[y] << ", found \"" << axisOf(y, groupY) << '"';
    };
    // An unreduced result needs no owner to reduce to.
    bool unreduced = !ranks.getUnreducedAxes(op.getResult().getType()).empty();
    switch (form->stationary) {
    case ccl::ProductForm::C:
      return success(succeeded(expectAlike(2, M, 0, M)) &&
                     succeeded(expectAlike(2, N, 1, N)));
    case ccl::ProductForm::A:
      return success(succeeded(expectAlike(0, M, 2, M)) &&
                     succeeded(expectAlike(0, K, 1, K)) &&
                     (unreduced || succeeded(expectAlike(0, K, 2, N))));
    case ccl::ProductForm::B:
      return success(succeeded(expectAlike(1, N, 2, N)) &&
                     succeeded(expectAlike(1, K, 0, K)) &&
                     (unreduced || succeeded(expectAlike(1, K, 2, M))));
    }
    llvm_unreachable("one of three tensors is stationary");
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
      // Of addends, the first is the sum and the others are zero.
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

struct DistributedProductModel
    : InterpretableOpInterface::ExternalModel<DistributedProductModel,
                                              ccl::MatmulOp> {
  LogicalResult interpret(Operation *op, Ranks &ranks) const {
    return DistributedProduct(cast<ccl::MatmulOp>(op), ranks).run();
  }
};

} // namespace

void mlir::optimus::attachDistributedProducts(MLIRContext &context) {
  ccl::MatmulOp::attachInterface<DistributedProductModel>(context);
}
