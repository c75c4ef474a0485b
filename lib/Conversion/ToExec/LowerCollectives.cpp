//===- LowerCollectives.cpp - Collectives that stand alone ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

/// A tensor as [outer, inner], sharded before dimension `dim`.
static std::pair<int64_t, int64_t> splitBefore(Value tensor, int64_t dim) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(tensor.getType()).getShape();
  int64_t outer = 1;
  for (int64_t extent : shape.take_front(dim))
    outer *= extent;
  return {outer, getNumElements(tensor) / outer};
}

static Value getInput(Operation *op) { return op->getOperand(0); }
static Value getResult(Operation *op) { return op->getResult(0); }

/// Lowers a collective on the matrix that dimension `dim` makes of its
/// tensors; leading dimensions are the rows' lengths.
static LogicalResult lowerAlong(Operation *op, exec::CollectiveKind kind,
                                StringRef axis, int64_t dim,
                                Lowering &lowering) {
  auto [outer, srcInner] = splitBefore(getInput(op), dim);
  auto [dstOuter, dstInner] = splitBefore(getResult(op), dim);
  int64_t ranks = *lowering.getMesh().getAxisSize(axis);
  bool gathers = kind == exec::CollectiveKind::AllGather;
  int64_t part = gathers ? srcInner : dstInner;
  int64_t whole = gathers ? dstInner : srcInner;
  if (outer != dstOuter || part * ranks != whole)
    return op->emitOpError() << "dimension " << dim << " has parts of " << part
                             << " elements (with what follows) on " << ranks
                             << " ranks, which do not make up " << whole;
  lowering.collective({kind,
                       axis,
                       {lowering.getBuffer(getInput(op)), srcInner},
                       {lowering.getBuffer(getResult(op)), dstInner},
                       outer,
                       part});
  return success();
}

static LogicalResult lowerSlice(ccl::SliceOp op, Lowering &lowering) {
  auto [outer, srcInner] = splitBefore(op.getInput(), op.getDim());
  auto [dstOuter, dstInner] = splitBefore(op.getResult(), op.getDim());
  int64_t ranks = *lowering.getMesh().getAxisSize(op.getAxis());
  if (outer != dstOuter || dstInner * ranks != srcInner)
    return op.emitOpError() << "parts of " << dstInner << " elements on "
                            << ranks << " ranks do not make up " << srcInner;
  Value input = lowering.getBuffer(op.getInput());
  OpBuilder &builder = lowering.builder;
  auto type = cast<MemRefType>(input.getType());
  Value mine = exec::SliceRankOp::create(
      builder, lowering.location,
      MemRefType::get({(outer - 1) * srcInner + dstInner},
                      type.getElementType()),
      input, builder.getStrArrayAttr(op.getAxis()), dstInner);
  // Integers are inputs, of which each rank reads a part.
  if (outer == 1 && isa<IntegerType>(type.getElementType())) {
    lowering.setBuffer(op.getResult(), mine);
    return success();
  }
  lowering.copy({mine, srcInner},
                {lowering.getBuffer(op.getResult()), dstInner}, outer,
                dstInner);
  return success();
}

namespace {
struct AllReduceLowering : LoweringModel<AllReduceLowering, ccl::AllReduceOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(ccl::AllReduceOp op, Lowering &lowering) const {
    int64_t extent = getNumElements(op.getInput());
    lowering.collective({exec::CollectiveKind::AllReduce,
                         op.getAxis(),
                         {lowering.getBuffer(op.getInput()), extent},
                         {lowering.getBuffer(op.getResult()), extent},
                         1,
                         extent});
  }
};

struct ReduceScatterLowering
    : LoweringModel<ReduceScatterLowering, ccl::ReduceScatterOp> {
  LogicalResult lower(ccl::ReduceScatterOp op, Lowering &lowering) const {
    return lowerAlong(op, exec::CollectiveKind::ReduceScatter, op.getAxis(),
                      op.getDim(), lowering);
  }
};

struct AllGatherLowering : LoweringModel<AllGatherLowering, ccl::AllGatherOp> {
  LogicalResult lower(ccl::AllGatherOp op, Lowering &lowering) const {
    return lowerAlong(op, exec::CollectiveKind::AllGather, op.getAxis(),
                      op.getDim(), lowering);
  }
};

struct SliceLowering : LoweringModel<SliceLowering, ccl::SliceOp> {
  LogicalResult lower(ccl::SliceOp op, Lowering &lowering) const {
    return lowerSlice(op, lowering);
  }
};
} // namespace

void mlir::optimus::attachCollectiveLowerings(MLIRContext &context) {
  attachModels<AllReduceLowering, ReduceScatterLowering, AllGatherLowering,
               SliceLowering>(context);
}
