//===- DistributedHeadLoss.cpp - Head and loss, sharded vocabulary *- C++
//-*-===//
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"
#include "HeadLoss.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Interpreter/Interpreter.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Executes `ccl.head_loss` and `ccl.head_loss_grad`.
template <typename Op>
class DistributedHead {
public:
  DistributedHead(Op op, Ranks &ranks) : op(op), ranks(ranks) {}

  LogicalResult run() {
    for (Value result : op->getResults())
      parts.push_back(SmallVector<Tensor>(
          ranks.getNumRanks(),
          Tensor::zeros(cast<RankedTensorType>(result.getType()).getShape())));
    for (ArrayRef<int64_t> group : ranks.getGroups(op.getAxis()))
      if (failed(runGroup(group)))
        return failure();
    for (auto [result, tensors] : llvm::zip_equal(op->getResults(), parts))
      ranks.set(result, std::move(tensors));
    return checkAgainstWhole();
  }

private:
  static constexpr bool kHasGradient = std::is_same_v<Op, ccl::HeadLossGradOp>;

  bool isHiddenSharded() {
    Tensor h = ranks.get(op.getH(), 0), table = ranks.get(op.getTable(), 0);
    return h.getNumCols() != table.getNumCols();
  }

  /// The rows of h of a group, its parts side by side where they are sharded.
  FailureOr<Tensor> gatherHidden(ArrayRef<int64_t> group) {
    Tensor first = ranks.get(op.getH(), group.front());
    if (!isHiddenSharded())
      return first;
    int64_t local = first.getNumCols(), rows = first.getNumRows();
    int64_t whole = local * group.size();
    if (whole != ranks.get(op.getTable(), group.front()).getNumCols())
      return op->emitOpError("expected the parts of h to make up the ")
             << ranks.get(op.getTable(), group.front()).getNumCols()
             << " columns of the table, found " << group.size() << " parts of "
             << local;
    SmallVector<int64_t> shape = first.shape;
    shape.back() = whole;
    Tensor gathered = Tensor::zeros(shape);
    for (auto [index, rank] : llvm::enumerate(group))
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(ranks.get(op.getH(), rank).elements.begin() + row * local,
                    local,
                    gathered.elements.begin() + row * whole + index * local);
    return gathered;
  }

  LogicalResult runGroup(ArrayRef<int64_t> group) {
    FailureOr<Tensor> h = gatherHidden(group);
    if (failed(h))
      return failure();
    std::vector<HeadPart> heads;
    for (int64_t rank : group) {
      // The table's columns are whole, so they say what is padding in h.
      Frame frame(op, ranks, rank);
      heads.push_back(
          {*h, ranks.get(op.getTable(), rank), ranks.get(op.getTargets(), rank),
           op.getBias() ? ranks.get(op.getBias(), rank) : Tensor(),
           frame.getExtent(op.getTable(), 0),
           frame.getPadding(op.getTargets(), 0,
                            ranks.get(op.getTargets(), rank).shape.size()),
           frame.getPadding(op.getTable(), 1, 2)});
      if (getDistance(heads.back().targets, heads.front().targets) != 0)
        return op->emitOpError("expected the same targets on every rank of \"")
               << op.getAxis() << "\"; they differ between "
               << ranks.describe(group.front()) << " and "
               << ranks.describe(rank);
    }
    FailureOr<std::vector<HeadResult>> results =
        computeHeadLoss(heads, getWholeShape(op.getTable().getType())[0], [&] {
          return op->emitOpError() << "among " << ranks.describe(group.front())
                                   << " and those that share its vocabulary: ";
        });
    if (failed(results))
      return failure();
    for (auto [rank, result] : llvm::zip_equal(group, *results)) {
      parts[0][rank][0] = result.lossSum;
      parts[1][rank][0] = result.realCount;
    }
    if constexpr (kHasGradient)
      setGradients(group, *results);
    return success();
  }

  void setGradients(ArrayRef<int64_t> group, ArrayRef<HeadResult> results) {
    Tensor dh = results.front().dh;
    for (const HeadResult &result : results.drop_front())
      for (int64_t i = 0; i < dh.getNumElements(); ++i)
        dh[i] += result.dh[i];
    for (auto [index, rank] : llvm::enumerate(group)) {
      Tensor &part = parts[2][rank];
      int64_t local = part.getNumCols(), whole = dh.getNumCols();
      int64_t first = isHiddenSharded() ? index * local : 0;
      for (int64_t row = 0; row < part.getNumRows(); ++row)
        std::copy_n(dh.elements.begin() + row * whole + first, local,
                    part.elements.begin() + row * local);
      parts[3][rank] = results[index].dtable;
      if (parts.size() > 4)
        parts[4][rank] = results[index].dbias;
    }
  }

  /// The serial semantics.
  LogicalResult checkAgainstWhole() {
    SmallVector<Tensor> operands;
    for (Value operand : op->getOperands())
      operands.push_back(ranks.assemble(operand));
    Frame frame(op, operands);
    FailureOr<HeadResult> whole = computeHeadLoss(op, frame);
    if (failed(whole))
      return failure();
    SmallVector<Tensor> expected = {Tensor::scalar(whole->lossSum),
                                    Tensor::scalar(whole->realCount)};
    if constexpr (kHasGradient)
      expected.append({std::move(whole->dh), std::move(whole->dtable)});
    if (op->getNumResults() > 4)
      expected.push_back(std::move(whole->dbias));
    return checkSerialSemantics(op, ranks, expected);
  }

  Op op;
  Ranks &ranks;
  SmallVector<SmallVector<Tensor>> parts; // of each result
};

template <typename Op>
LogicalResult executeHead(Op op, Ranks &ranks) {
  return DistributedHead<Op>(op, ranks).run();
}

} // namespace

void mlir::optimus::attachDistributedHeadLoss(MLIRContext &context) {
  RanksModel<ccl::HeadLossOp, executeHead>::attach(context);
  RanksModel<ccl::HeadLossGradOp, executeHead>::attach(context);
}
