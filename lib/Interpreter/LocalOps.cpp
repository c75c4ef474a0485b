//===- LocalOps.cpp - Operations on one rank's parts ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "Checks.h"

#include "optimus/Interpreter/Interpreter.h"

using namespace mlir;
using namespace mlir::optimus;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

Frame::Frame(Operation *op, const Ranks &ranks, int64_t rank)
    : op(op), where("on " + ranks.describe(rank)) {
  for (Value operand : op->getOperands()) {
    operands.push_back(&ranks.get(operand, rank));
    operandExtents.push_back(ranks.getExtents(operand.getType(), rank));
  }
  for (Value result : op->getResults()) {
    results.push_back(Tensor::zeros(shapeOf(result)));
    resultExtents.push_back(ranks.getExtents(result.getType(), rank));
  }
}

static SmallVector<Extent> getWholeExtents(ArrayRef<int64_t> shape) {
  SmallVector<Extent> extents;
  for (int64_t extent : shape)
    extents.push_back({0, extent});
  return extents;
}

Frame::Frame(Operation *op, ArrayRef<Tensor> wholeOperands)
    : op(op), where("on whole tensors") {
  for (const Tensor &operand : wholeOperands) {
    operands.push_back(&operand);
    operandExtents.push_back(getWholeExtents(operand.shape));
  }
  for (Value result : op->getResults()) {
    SmallVector<int64_t> shape = getWholeShape(result.getType());
    results.push_back(Tensor::zeros(shape));
    resultExtents.push_back(getWholeExtents(shape));
  }
}

const Tensor &Frame::get(Value operand) const {
  for (auto [index, candidate] : llvm::enumerate(op->getOperands()))
    if (candidate == operand)
      return *operands[index];
  llvm_unreachable("an operand of the operation");
}

Tensor &Frame::result(Value result) {
  return results[cast<OpResult>(result).getResultNumber()];
}

Extent Frame::getExtent(Value value, int64_t dim) const {
  if (value.getDefiningOp() == op)
    return resultExtents[cast<OpResult>(value).getResultNumber()][dim];
  for (auto [index, candidate] : llvm::enumerate(op->getOperands()))
    if (candidate == value)
      return operandExtents[index][dim];
  llvm_unreachable("an operand or result of the operation");
}

Extent Frame::getLastExtent(Value value) const {
  return getExtent(value,
                   cast<RankedTensorType>(value.getType()).getRank() - 1);
}

std::vector<bool> Frame::getPadding(Value value, int64_t first,
                                    int64_t last) const {
  const Tensor &tensor = get(value);
  std::vector<bool> padding = {false};
  for (int64_t dim = first; dim < last; ++dim) {
    std::vector<bool> inner;
    for (bool outer : padding)
      for (int64_t i = 0; i < tensor.shape[dim]; ++i)
        inner.push_back(outer || i >= getExtent(value, dim).real);
    padding = std::move(inner);
  }
  return padding;
}

InFlightDiagnostic Frame::emitError() const {
  return op->emitOpError() << where << ": ";
}

LogicalResult mlir::optimus::interpretLocally(Operation *op, Ranks &ranks,
                                              bool hasSerialSemantics,
                                              LocalFunction run) {
  SmallVector<SmallVector<Tensor>> parts(op->getNumResults());
  for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
    Frame frame(op, ranks, rank);
    if (failed(run(frame)))
      return failure();
    for (auto [index, result] : llvm::enumerate(frame.getResults()))
      parts[index].push_back(std::move(result));
  }
  for (auto [result, tensors] : llvm::zip_equal(op->getResults(), parts))
    ranks.set(result, std::move(tensors));
  if (!hasSerialSemantics || ranks.getNumRanks() == 1)
    return success();

  SmallVector<Tensor> operands;
  for (Value operand : op->getOperands())
    operands.push_back(ranks.assemble(operand));
  Frame whole(op, operands);
  if (failed(run(whole)))
    return failure();
  return checkSerialSemantics(op, ranks, whole.getResults());
}
