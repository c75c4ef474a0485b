//===- PanelProduct.cpp - A distributed product in memory -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PanelProduct.h"

using namespace mlir;
using namespace mlir::optimus;

static int64_t getExtentOf(ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

LogicalResult PanelProduct::describe(Value result) {
  FailureOr<ccl::ProductForm> form = ccl::getProductForm(op);
  FailureOr<ccl::ProductSharding> sharding = ccl::getProductSharding(op);
  if (failed(form) || failed(sharding))
    return op.emitOpError("has no form of distributed product");
  stationary = form->stationary;
  numPanels = form->panels;
  blocks = form->blocks;
  hasOwners = form->hasOwners();
  using enum PanelOperand::Group;
  constexpr PanelOperand::Group streamedOf[3] = {N, M, K};
  streamed = streamedOf[stationary];

  operands[0].rowGroup = op.getTransposeA() ? K : M;
  operands[0].colGroup = op.getTransposeA() ? M : K;
  operands[1].rowGroup = op.getTransposeB() ? N : K;
  operands[1].colGroup = op.getTransposeB() ? K : N;
  operands[2].rowGroup = M;
  operands[2].colGroup = N;
  Value values[3] = {op.getA(), op.getB(), op.getResult()};
  // Where in its group the streamed dimension stands: its position in a tensor
  // that shards it, else the first one.
  int64_t position = 0;
  for (int tensor = 0; tensor < 3; ++tensor)
    if (tensor != stationary && sharding->dims[tensor][streamed] >= 0)
      position =
          sharding->dims[tensor][streamed] - getDims(tensor, streamed).first;
  for (int tensor = 0; tensor < 3; ++tensor) {
    PanelOperand &operand = operands[tensor];
    operand.tensor = tensor == 2 ? result : values[tensor];
    operand.buffer = lowering.getBuffer(
        tensor == 1 && getWeight() ? getWeight() : operand.tensor);
    auto [firstRow, lastRow] = getDims(tensor, operand.rowGroup);
    ArrayRef<int64_t> shape = getType(tensor).getShape();
    operand.rows = getExtentOf(shape.slice(firstRow, lastRow - firstRow));
    operand.cols = getExtentOf(shape) / operand.rows;
    operand.panelRows = operand.rows;
    operand.panelCols = operand.cols;
    if (tensor != stationary &&
        failed(describePanels(operand, tensor, position, form->moves[tensor])))
      return failure();
  }
  return success();
}

Gemm PanelProduct::getGemm() {
  const PanelOperand &a = operands[0], &c = operands[2];
  bool transA = op.getTransposeA();
  Gemm gemm{transA ? a.panelCols : a.panelRows,
            c.panelCols,
            transA ? a.panelRows : a.panelCols,
            {},
            {},
            {}};
  gemm.transA = transA;
  gemm.transB = op.getTransposeB();
  // Rows that move are those of other slots.
  if (!transA && !(a.isStreamed && a.streamsRows))
    gemm.live = lowering.getLive(op.getA());
  gemm.isWeightB = getWeight() != nullptr;
  if (gemm.isWeightB)
    gemm.blocks = lowering.getWeights().getBlocks(op.getB());
  return gemm;
}

/// Only an operand that stays is the same buffer in every step.
Value PanelProduct::getWeight() {
  return stationary == ccl::ProductForm::B
             ? lowering.getWeights().getParameter(op.getB())
             : Value();
}

std::pair<int64_t, int64_t> PanelProduct::getDims(int tensor,
                                                  PanelOperand::Group group) {
  PanelOperand &operand = operands[tensor];
  int64_t rank = getType(tensor).getRank();
  int64_t contracting = op.getContracting();
  int64_t sizes[3] = {getType(0).getRank() - contracting, contracting,
                      getType(1).getRank() - contracting};
  if (operand.rowGroup == group)
    return {0, sizes[group]};
  return {rank - sizes[group], rank};
}

RankedTensorType PanelProduct::getType(int tensor) {
  Value values[3] = {op.getA(), op.getB(), op.getResult()};
  return cast<RankedTensorType>(values[tensor].getType());
}

LogicalResult PanelProduct::describePanels(PanelOperand &operand, int tensor,
                                           int64_t position, StringRef axis) {
  ArrayRef<int64_t> shape = getType(tensor).getShape();
  int64_t dim = getDims(tensor, streamed).first + position;
  int64_t ranks = 1;
  if (!axis.empty())
    ranks = *lowering.getMesh().getAxisSize(axis);
  if (ranks > 1)
    operand.axis = axis;
  operand.isStreamed = true;
  operand.streamsRows = operand.rowGroup == streamed;
  if (!ccl::canDivideIntoPanels(shape[dim] * ranks, blocks, numPanels))
    return op.emitOpError() << "cannot shard dimension " << dim << " of "
                            << StringRef("ABC").substr(tensor, 1) << ", "
                            << shape[dim] << " on each of " << ranks
                            << " ranks, into " << numPanels << " panels";
  operand.numLocal = hasOwners ? numPanels / ranks : numPanels;
  operand.sharers = hasOwners ? 1 : ranks;
  operand.slices = hasOwners ? 1 : blocks / ranks;
  operand.outer = getExtentOf(shape.take_front(dim));
  operand.ld = getExtentOf(shape.drop_front(dim));
  operand.inner = operand.ld / operand.numLocal;
  int64_t &extent = operand.streamsRows ? operand.panelRows : operand.panelCols;
  extent = extent / operand.numLocal * operand.sharers;
  return success();
}
