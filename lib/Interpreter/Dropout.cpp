//===- Dropout.cpp - Dropout, one draw at a time ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus-support/Dropout.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/Interpreter.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

LogicalResult executeLocally(DropoutOp op, Frame &frame) {
  const Tensor &x = frame.get(op.getX());
  const Tensor &random = frame.get(op.getRandom());
  Tensor &result = frame.result(op.getResult());
  auto word = [&](int64_t i) -> uint64_t {
    return static_cast<uint32_t>(static_cast<int32_t>(random[i]));
  };
  uint64_t seed = word(1) << 32 | word(0), step = word(3) << 32 | word(2);
  double rate = op.getRate().convertToDouble();
  uint32_t threshold = optimus_support::dropoutThreshold(rate);

  SmallVector<int64_t> whole = getWholeShape(op.getX().getType());
  int64_t rank = whole.size(), wholeSize = 1;
  for (int64_t extent : whole)
    wholeSize *= extent;
  SmallVector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    int64_t element = 0;
    for (int64_t dim = 0; dim < rank; ++dim)
      element = element * whole[dim] + index[dim] +
                frame.getExtent(op.getX(), dim).offset;
    uint32_t draw = optimus_support::dropoutDraw(
        seed, static_cast<uint32_t>(op.getStream()), step,
        word(4) * wholeSize + element);
    result[i] = draw >= threshold ? x[i] / (1 - rate) : 0;
    for (int64_t dim = rank - 1; dim >= 0 && ++index[dim] == x.shape[dim];
         --dim)
      index[dim] = 0;
  }
  return success();
}

} // namespace

void mlir::optimus::attachDropout(MLIRContext &context) {
  LocalModel<DropoutOp, executeLocally>::attach(context);
}
