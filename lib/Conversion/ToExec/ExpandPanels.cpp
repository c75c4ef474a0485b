//===- ExpandPanels.cpp - Distributed products, panel by panel --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tensor of a product A·B = C stays where it is. The index missing in it is
// streamed in panels, and each of the other two moves over its sharding axis of
// this index. A panel that belongs to one rank is broadcast by it, or reduced
// to it. One with a slice of every rank's part is gathered from them, or
// scattered to them. A rank's part of a panel is a matrix of the tensor's
// memory, [outer, inner] with a leading dimension, where the dimensions before
// the streamed one make up `outer`.
//
// An index of 12 on an axis of 3 ranks, where the other tensor moves over an
// axis of 2, has 6 blocks of 2 elements:
//
//   6 panels:  00 11 22 33 44 55    each of one rank in either tensor
//   2 panels:  01 01 01 01 01 01    slices of 2 blocks on each of 3 ranks
//   1 panel:   00 00 00 00 00 00    the tensor whole
//
// Products of a group are expanded together: an operand's panel that several
// of them multiply is fetched once, and the panels of a sum of products are
// added up before they are reduced.
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"
#include "PanelMovement.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// Emits the panels of products that are expanded together.
class PanelExpansion {
public:
  explicit PanelExpansion(Lowering &lowering)
      : lowering(lowering), movement(lowering) {}

  LogicalResult run(ArrayRef<Operation *> group) {
    for (Operation *op : group) {
      auto product = dyn_cast<ccl::MatmulOp>(op);
      if (!product) {
        if (failed(checkSum(op, group)))
          return failure();
        continue;
      }
      products.emplace_back(product, lowering);
      if (failed(products.back().describe(getSum(product, group))))
        return failure();
      if (products.back().numPanels != products.front().numPanels)
        return product.emitOpError("has ")
               << products.back().numPanels
               << " panels, the first product of its group "
               << products.front().numPanels;
    }
    for (int64_t panel = 0; panel < products.front().numPanels; ++panel) {
      movement.begin(products, panel);
      for (size_t index = 0; index < products.size(); ++index)
        expand(index, panel);
    }
    movement.end();
    return success();
  }

  /// What `product` is added to in its group in the end; its result if to
  /// nothing.
  static Value getSum(ccl::MatmulOp product, ArrayRef<Operation *> group) {
    Value sum = product.getResult();
    while (sum.hasOneUse() &&
           llvm::is_contained(group, *sum.getUsers().begin()) &&
           isa<AddOp>(*sum.getUsers().begin()))
      sum = sum.getUsers().begin()->getResult(0);
    return sum;
  }

private:
  /// A sum in a group is one of neighbours in it, and of nothing else.
  static LogicalResult checkSum(Operation *op, ArrayRef<Operation *> group) {
    int64_t first = group.size(), last = -1, count = 0;
    std::function<bool(Operation *)> collect = [&](Operation *addend) {
      const auto *found = llvm::find(group, addend);
      if (!addend || found == group.end() ||
          (addend != op && !addend->getResult(0).hasOneUse()))
        return false;
      if (isa<AddOp>(addend))
        return llvm::all_of(addend->getOperands(), [&](Value operand) {
          return collect(operand.getDefiningOp());
        });
      int64_t index = found - group.begin();
      first = std::min(first, index);
      last = std::max(last, index);
      ++count;
      return isa<ccl::MatmulOp>(addend);
    };
    if (!isa<AddOp>(op) || !collect(op) || last - first + 1 != count)
      return op->emitOpError("is in a group of products, but is not a sum of "
                             "neighbours in it");
    return success();
  }

  /// Whether a neighbour in the group goes to where product `index` does.
  bool isSummedWith(size_t index, size_t neighbour) const {
    return neighbour < products.size() &&
           products[index].operands[2].buffer ==
               products[neighbour].operands[2].buffer;
  }

  /// Adds a product to the sum in `matrix`, that of `operand` or of a panel of
  /// it. A narrow sum of several is kept in f32 up to the last one, which
  /// rounds it.
  void addProduct(Gemm gemm, const PanelOperand &operand, Matrix matrix,
                  bool isFirst, bool isLast) {
    gemm.c = matrix;
    if (getElements(operand).isF32() || (isFirst && isLast)) {
      gemm.accumulate = !isFirst;
      lowering.gemm(gemm);
      return;
    }
    Value &sum = wideSums[operand.buffer];
    if (isFirst)
      sum = lowering.allocateWorkspace(gemm.m * gemm.n,
                                       lowering.builder.getF32Type(), "f32 sum",
                                       getTensorId(operand.tensor));
    if (isLast && lowering.getTarget().mixesElements()) {
      gemm.epilogue = exec::Epilogue::Add;
      gemm.extra = {sum, gemm.n};
      lowering.gemm(gemm);
      return;
    }
    gemm.c = {sum, gemm.n};
    gemm.accumulate = !isFirst;
    lowering.gemm(gemm);
    if (isLast)
      round(sum, matrix, gemm.m, gemm.n, operand);
  }

  /// Rounds a sum in f32 to the elements of `operand`, in rows that may lie
  /// apart.
  void round(Value sum, Matrix matrix, int64_t rows, int64_t cols,
             const PanelOperand &operand) {
    if (matrix.ld == cols)
      return lowering.convert(sum,
                              lowering.slice(matrix.buffer, 0, rows * cols));
    Value narrow =
        lowering.allocateWorkspace(rows * cols, getElements(operand),
                                   "narrow sum", getTensorId(operand.tensor));
    lowering.convert(sum, narrow);
    lowering.copy({narrow, cols}, matrix, rows, cols);
  }

  void expand(size_t index, int64_t panel) {
    PanelProduct &product = products[index];
    const PanelOperand &c = product.operands[2];
    lowering.location = product.op.getLoc();
    Gemm gemm = product.getGemm();
    gemm.a = movement.getFactor(product.operands[0], panel);
    gemm.b = movement.getFactor(product.operands[1], panel);
    bool isFirst = index == 0 || !isSummedWith(index, index - 1);
    bool isLast = !isSummedWith(index, index + 1);
    if (product.stationary == ccl::ProductForm::C) {
      addProduct(gemm, c, {c.buffer, c.cols}, panel == 0 && isFirst,
                 panel + 1 == product.numPanels && isLast);
      return;
    }
    if (c.axis.empty() && c.isMatrix()) {
      Matrix own = movement.getOwn(c, panel);
      addProduct(gemm, c, PanelMovement::getMatrix(c, own.buffer), isFirst,
                 isLast);
      return;
    }
    if (isFirst)
      partial = movement.allocatePartial(c, panel);
    addProduct(gemm, c, {partial, c.panelCols}, isFirst, isLast);
    if (isLast)
      movement.reduce(c, panel, partial);
  }

  Lowering &lowering;
  PanelMovement movement;
  std::vector<PanelProduct> products;
  /// The panel that the present sum is made in.
  Value partial;
  /// By the buffers of narrow sums, what they are so far.
  llvm::DenseMap<Value, Value> wideSums;
};
} // namespace

LogicalResult mlir::optimus::expandPanels(ArrayRef<Operation *> group,
                                          Lowering &lowering) {
  return PanelExpansion(lowering).run(group);
}

namespace {
struct PanelLowering : LoweringModel<PanelLowering, ccl::MatmulOp> {
  LogicalResult lower(ccl::MatmulOp op, Lowering &lowering) const {
    return expandPanels(op.getOperation(), lowering);
  }
};
} // namespace

void mlir::optimus::attachPanelLowering(MLIRContext &context) {
  attachModels<PanelLowering>(context);
}

bool mlir::optimus::canExpandTogether(ArrayRef<Operation *> group,
                                      const Lowering &lowering) {
  for (Operation *op : group) {
    auto product = dyn_cast<ccl::MatmulOp>(op);
    if (!product)
      continue;
    Value sum = PanelExpansion::getSum(product, group);
    for (Operation *other : group)
      if (isa<ccl::MatmulOp>(other) &&
          llvm::any_of(other->getOperands(), [&](Value operand) {
            return lowering.shareBuffer(sum, operand);
          }))
        return false;
  }
  return true;
}
