//===- ExpandPanels.cpp - Distributed products, panel by panel --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tensor of a product A·B = C stays where it is. The index that it lacks
// is streamed in panels, and each of the other two moves over the axis that
// cuts this index in it: an operand's panel is broadcast by its owner, a
// result's panel is reduced to its owner. A panel of a tensor is a matrix of
// the tensor's memory, [outer, inner] with a leading dimension, where the
// dimensions before the streamed one make up `outer`.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
enum Group { M = 0, K = 1, N = 2 };

/// One of the three tensors, as a matrix whose rows and columns are groups of
/// dimensions, and its panels.
struct Operand {
  Value buffer;
  /// The groups of its rows and columns in memory.
  Group rowGroup, colGroup;
  int64_t rows, cols;

  /// The axis it moves over; empty where it does not move.
  StringRef axis;
  bool isStreamed = false;
  /// Whether the streamed index is in its rows.
  bool streamsRows = false;
  /// Panels this rank holds, and the panel's matrix in memory.
  int64_t numLocal = 1;
  int64_t outer = 1, inner = 1, ld = 1;
  /// The rows and columns of a panel.
  int64_t panelRows = 0, panelCols = 0;

  /// A panel that is one stretch of memory.
  bool isContiguous() const { return outer == 1 || inner == ld; }
  /// A panel that is a matrix [panelRows, panelCols] where it lies.
  bool isMatrix() const { return isContiguous() || outer == panelRows; }
  int64_t getOwner(int64_t panel) const { return panel / numLocal; }
};

class PanelExpansion {
public:
  PanelExpansion(ccl::MatmulOp op, Lowering &lowering)
      : op(op), lowering(lowering) {}

  LogicalResult run() {
    if (failed(describe()))
      return failure();
    for (int64_t panel = 0; panel < numPanels; ++panel)
      expand(panel);
    return success();
  }

private:
  /// The dimensions of group `group` in tensor `tensor`, as [first, last).
  std::pair<int64_t, int64_t> getDims(int tensor, Group group) {
    Operand &operand = operands[tensor];
    int64_t rank = getType(tensor).getRank();
    int64_t contracting = op.getContracting();
    int64_t sizes[3] = {getType(0).getRank() - contracting, contracting,
                        getType(1).getRank() - contracting};
    if (operand.rowGroup == group)
      return {0, sizes[group]};
    return {rank - sizes[group], rank};
  }

  RankedTensorType getType(int tensor) {
    Value values[3] = {op.getA(), op.getB(), op.getResult()};
    return cast<RankedTensorType>(values[tensor].getType());
  }

  static int64_t getProduct(ArrayRef<int64_t> extents) {
    int64_t product = 1;
    for (int64_t extent : extents)
      product *= extent;
    return product;
  }

  LogicalResult describe() {
    FailureOr<ccl::ProductForm> form = ccl::getProductForm(op);
    FailureOr<ccl::ProductCuts> cuts = ccl::getProductCuts(op);
    if (failed(form) || failed(cuts))
      return op.emitOpError("has no form of distributed product");
    stationary = form->stationary;
    numPanels = form->panels;
    constexpr Group streamedOf[3] = {N, M, K};
    streamed = streamedOf[stationary];

    operands[0].rowGroup = op.getTransposeA() ? K : M;
    operands[0].colGroup = op.getTransposeA() ? M : K;
    operands[1].rowGroup = op.getTransposeB() ? N : K;
    operands[1].colGroup = op.getTransposeB() ? K : N;
    operands[2].rowGroup = M;
    operands[2].colGroup = N;
    Value values[3] = {op.getA(), op.getB(), op.getResult()};
    // Where in its group the streamed dimension stands: that of a tensor that
    // cuts it, else the first.
    int64_t position = 0;
    for (int tensor = 0; tensor < 3; ++tensor)
      if (tensor != stationary && cuts->dims[tensor][streamed] >= 0)
        position =
            cuts->dims[tensor][streamed] - getDims(tensor, streamed).first;
    for (int tensor = 0; tensor < 3; ++tensor) {
      Operand &operand = operands[tensor];
      operand.buffer = lowering.getBuffer(values[tensor]);
      auto [firstRow, lastRow] = getDims(tensor, operand.rowGroup);
      ArrayRef<int64_t> shape = getType(tensor).getShape();
      operand.rows = getProduct(shape.slice(firstRow, lastRow - firstRow));
      operand.cols = getProduct(shape) / operand.rows;
      operand.panelRows = operand.rows;
      operand.panelCols = operand.cols;
      if (tensor != stationary &&
          failed(
              describePanels(operand, tensor, position, form->moves[tensor])))
        return failure();
    }
    return success();
  }

  LogicalResult describePanels(Operand &operand, int tensor, int64_t position,
                               StringRef axis) {
    ArrayRef<int64_t> shape = getType(tensor).getShape();
    int64_t dim = getDims(tensor, streamed).first + position;
    int64_t ranks = 1;
    if (!axis.empty())
      ranks = *lowering.getMesh().getAxisSize(axis);
    if (ranks > 1)
      operand.axis = axis;
    operand.isStreamed = true;
    operand.streamsRows = operand.rowGroup == streamed;
    if (numPanels % ranks != 0 || shape[dim] % (numPanels / ranks) != 0)
      return op.emitOpError() << "cannot cut dimension " << dim << " of "
                              << StringRef("ABC").substr(tensor, 1) << ", "
                              << shape[dim] << " on each of " << ranks
                              << " ranks, into " << numPanels << " panels";
    operand.numLocal = numPanels / ranks;
    operand.outer = getProduct(shape.take_front(dim));
    operand.ld = getProduct(shape.drop_front(dim));
    operand.inner = operand.ld / operand.numLocal;
    (operand.streamsRows ? operand.panelRows : operand.panelCols) /=
        operand.numLocal;
    return success();
  }

  /// Panel `panel` where it lies on its owner.
  Value getOwn(const Operand &operand, int64_t panel) {
    return lowering.slice(operand.buffer,
                          panel % operand.numLocal * operand.inner,
                          (operand.outer - 1) * operand.ld + operand.inner);
  }

  Value allocatePanel(const Operand &operand, StringRef name) {
    return lowering.allocateWorkspace(operand.outer * operand.inner, name);
  }

  Value selectOwner(const Operand &operand, int64_t panel, Value own,
                    Value other) {
    return exec::SelectRankOp::create(
        lowering.builder, lowering.location, own.getType(),
        lowering.builder.getStringAttr(operand.axis),
        lowering.builder.getI64IntegerAttr(operand.getOwner(panel)), own,
        other);
  }

  /// A factor's panel on every rank, as a matrix.
  Matrix fetch(const Operand &operand, int64_t panel) {
    if (!operand.isStreamed)
      return {operand.buffer, operand.cols};
    Value own = getOwn(operand, panel);
    if (operand.axis.empty()) {
      if (operand.isMatrix())
        return getMatrix(operand, own);
      Value packed = allocatePanel(operand, "packed panel");
      lowering.copy({own, operand.ld}, {packed, operand.inner}, operand.outer,
                    operand.inner);
      return {packed, operand.panelCols};
    }
    Value panelBuffer = allocatePanel(operand, "received panel");
    // The owner uses its panel where it lies.
    if (operand.isContiguous())
      panelBuffer = selectOwner(operand, panel, own, panelBuffer);
    lowering.collective({exec::CollectiveKind::Broadcast,
                         operand.axis,
                         {own, operand.ld},
                         {panelBuffer, operand.inner},
                         operand.outer,
                         operand.inner,
                         operand.getOwner(panel)});
    return {panelBuffer, operand.panelCols};
  }

  /// A panel that is a matrix where it lies.
  Matrix getMatrix(const Operand &operand, Value own) {
    bool isWholeRow = operand.streamsRows || operand.isContiguous();
    return {own, isWholeRow ? operand.panelCols : operand.cols};
  }

  void expand(int64_t panel) {
    const Operand &a = operands[0], &b = operands[1], &c = operands[2];
    Matrix matrixA = fetch(a, panel), matrixB = fetch(b, panel);
    int64_t rowsA = a.panelRows, colsA = a.panelCols;
    Gemm gemm{op.getTransposeA() ? colsA : rowsA,
              c.panelCols,
              op.getTransposeA() ? rowsA : colsA,
              matrixA,
              matrixB,
              {}};
    gemm.transA = op.getTransposeA();
    gemm.transB = op.getTransposeB();
    gemm.weight = getStationaryWeight();
    if (stationary == ccl::ProductForm::C) {
      gemm.c = {c.buffer, c.cols};
      gemm.accumulate = panel > 0;
      lowering.gemm(gemm);
      return;
    }
    Value own = getOwn(c, panel);
    if (c.axis.empty() && c.isMatrix()) {
      gemm.c = getMatrix(c, own);
      lowering.gemm(gemm);
      return;
    }
    Value partial = allocatePanel(c, "partial panel");
    // The owner adds to its own part where the result will lie.
    if (!c.axis.empty() && c.isContiguous())
      partial = selectOwner(c, panel, own, partial);
    gemm.c = {partial, c.panelCols};
    lowering.gemm(gemm);
    if (c.axis.empty())
      lowering.copy({partial, c.inner}, {own, c.ld}, c.outer, c.inner);
    else
      lowering.collective({exec::CollectiveKind::Reduce,
                           c.axis,
                           {partial, c.inner},
                           {own, c.ld},
                           c.outer,
                           c.inner,
                           c.getOwner(panel)});
  }

  /// Only an operand that stays is the same buffer in every step.
  exec::Weight getStationaryWeight() {
    exec::Weight weight = Lowering::getWeight(op.getA(), op.getB());
    bool stays =
        (weight == exec::Weight::A && stationary == ccl::ProductForm::A) ||
        (weight == exec::Weight::B && stationary == ccl::ProductForm::B);
    return stays ? weight : exec::Weight::None;
  }

  ccl::MatmulOp op;
  Lowering &lowering;
  Operand operands[3];
  int stationary = 0;
  Group streamed = K;
  int64_t numPanels = 0;
};
} // namespace

LogicalResult mlir::optimus::expandPanels(ccl::MatmulOp op,
                                          Lowering &lowering) {
  return PanelExpansion(op, lowering).run();
}
