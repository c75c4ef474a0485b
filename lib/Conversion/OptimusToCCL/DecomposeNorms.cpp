//===- DecomposeNorms.cpp - Norms whose rows are sharded --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decompositions.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::optimus;

static SmallVector<int64_t> getRowShape(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> rows(shape.drop_back());
  rows.push_back(last);
  return rows;
}

/// The type of f32 statistics of the rows of `whole`, with a last dimension of
/// which this rank's part is `layout`'s.
static Type getRowType(Value whole, int64_t last, ShardingAttr layout,
                       Partitioner &p) {
  auto type = cast<RankedTensorType>(whole.getType());
  return ccl::getLocalType(
      getRowShape(type.getShape(), last),
      getRowShape(p.getClasses().getPaddedShape(whole), last),
      p.getBuilder().getF32Type(), layout, p.getMesh());
}

/// `local`, a tensor as `getRowType` has it, in another layout.
static Value convertRows(Value whole, Value local, ShardingAttr from,
                         ShardingAttr to, Partitioner &p) {
  int64_t last = ccl::getGlobalShape(local.getType()).back();
  return p.getValues().convert(
      local, getRowShape(p.getClasses().getPaddedShape(whole), last), from, to,
      p.getLoc());
}

/// The layout in which rows are normalised: one axis may shard them. Fails
/// where rows are whole and unpadded.
static FailureOr<SmallVector<Axes>> getNormLayout(Value result,
                                                  Partitioner &p) {
  SmallVector<Axes> dims = getDims(result);
  if (dims.back().size() > 1)
    dims.back().clear();
  int64_t last = dims.size() - 1;
  const DimensionClasses::Class &row = p.getClasses().getClass(result, last);
  if (dims.back().empty() && row.getPadded() == row.size)
    return failure();
  return dims;
}

static LogicalResult decompose(LayerNormOp op, Partitioner &p) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getResult(), p);
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  Axes axis = dims.back();
  ArrayRef<Axes> rows = dims.drop_back();
  int64_t parts = p.getMesh().getProduct(axis);
  auto xType = cast<RankedTensorType>(op.getX().getType());
  Value x = p.get(op.getX(), dims);

  // Each part's own moments, side by side on every rank.
  int64_t size = xType.getShape().back();
  int64_t local = p.getClasses().getPaddedShape(op.getX()).back() / parts;
  SmallVector<int64_t> counts;
  for (int64_t part = 0; part < parts; ++part)
    counts.push_back(std::clamp<int64_t>(size - part * local, 0, local));
  ShardingAttr mine = p.getLayout(append(rows, axis)),
               all = p.getLayout(append(rows, {}));
  Value moments = RowMomentsOp::create(
      p.getBuilder(), p.getLoc(), getRowType(op.getX(), 2 * parts, mine, p), x);
  moments = convertRows(op.getX(), moments, mine, all, p);
  ShardingAttr rowLayout = p.getLayout(rows);
  auto merged = MergeMomentsOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getMean(), rowLayout),
      p.getType(op.getRstd(), rowLayout), moments,
      p.getBuilder().getDenseI64ArrayAttr(counts), op.getEpsilonAttr());
  p.getValues().add(op.getMean(), rowLayout, merged.getMean());
  p.getValues().add(op.getRstd(), rowLayout, merged.getRstd());
  ShardingAttr layout = p.getLayout(dims);
  p.set(op.getResult(), layout,
        NormalizeOp::create(
            p.getBuilder(), p.getLoc(), p.getType(op.getResult(), layout), x,
            merged.getMean(), merged.getRstd(), p.get(op.getGamma(), axis),
            p.get(op.getBeta(), axis)));
  return success();
}

static LogicalResult decompose(LayerNormGradOp op, Partitioner &p) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getDx(), p);
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  Axes axis = dims.back();
  ArrayRef<Axes> rows = dims.drop_back();
  Value dy = p.get(op.getDy(), dims), x = p.get(op.getX(), dims);
  Value mean = p.get(op.getMean(), rows), rstd = p.get(op.getRstd(), rows);
  Value gamma = p.get(op.getGamma(), axis);

  ShardingAttr paramLayout = p.getLayout(axis, getShardingAxes(rows));
  auto params = NormParamGradOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getDgamma(), paramLayout),
      p.getType(op.getDbeta(), paramLayout), dy, x, mean, rstd);
  p.set(op.getDgamma(), paramLayout, params.getDgamma());
  p.set(op.getDbeta(), paramLayout, params.getDbeta());

  ShardingAttr partial = p.getLayout(append(rows, {}), axis),
               complete = p.getLayout(append(rows, {}));
  Value sums = NormGradSumsOp::create(p.getBuilder(), p.getLoc(),
                                      getRowType(op.getX(), 2, partial, p), dy,
                                      x, mean, rstd, gamma);
  sums = convertRows(op.getX(), sums, partial, complete, p);
  Value residual = op.getResidual() ? p.get(op.getResidual(), dims) : Value();
  ShardingAttr layout = p.getLayout(dims);
  int64_t size = cast<RankedTensorType>(op.getX().getType()).getShape().back();
  p.set(op.getDx(), layout,
        NormGradApplyOp::create(p.getBuilder(), p.getLoc(),
                                p.getType(op.getDx(), layout), dy, x, mean,
                                rstd, gamma, sums, residual,
                                p.getBuilder().getI64IntegerAttr(size)));
  return success();
}

/// Σ a·b·weight over each whole row, in the layout of `rows`; `rowStatistic` is
/// a value of the operation with one element a row. Parts of rows that `axis`
/// sharding gives partial sums, which one all-reduce sums.
static Value createRowDot(Value rowStatistic, Value a, Value b, Value weight,
                          ArrayRef<Axes> rows, Axes axis, Partitioner &p) {
  ShardingAttr partial = p.getLayout(rows, axis), complete = p.getLayout(rows);
  Value sums = RowDotOp::create(p.getBuilder(), p.getLoc(),
                                p.getType(rowStatistic, partial), a, b, weight);
  return p.getValues().convert(sums,
                               p.getClasses().getPaddedShape(rowStatistic),
                               partial, complete, p.getLoc());
}

static int64_t getRowSize(Value x) {
  return cast<RankedTensorType>(x.getType()).getShape().back();
}

static LogicalResult decompose(RmsNormOp op, Partitioner &p) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getResult(), p);
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  ArrayRef<Axes> rows = dims.drop_back();
  Value x = p.get(op.getX(), dims);
  Value squares =
      createRowDot(op.getRstd(), x, x, Value(), rows, dims.back(), p);
  Value rstd = RmsRstdOp::create(p.getBuilder(), p.getLoc(), squares,
                                 getRowSize(op.getX()), op.getEpsilon());
  p.getValues().add(op.getRstd(), p.getLayout(rows), rstd);
  ShardingAttr layout = p.getLayout(dims);
  p.set(op.getResult(), layout,
        RmsScaleOp::create(p.getBuilder(), p.getLoc(),
                           p.getType(op.getResult(), layout), x, rstd,
                           p.get(op.getGamma(), dims.back())));
  return success();
}

static LogicalResult decompose(RmsNormGradOp op, Partitioner &p) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getDx(), p);
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  ArrayRef<Axes> rows = dims.drop_back();
  Value dy = p.get(op.getDy(), dims), x = p.get(op.getX(), dims);
  Value rstd = p.get(op.getRstd(), rows);
  Value gamma = p.get(op.getGamma(), dims.back());
  Value sums = createRowDot(op.getRstd(), dy, x, gamma, rows, dims.back(), p);
  Value residual = op.getResidual() ? p.get(op.getResidual(), dims) : Value();
  ShardingAttr layout = p.getLayout(dims),
               paramLayout = p.getLayout(dims.back(), getShardingAxes(rows));
  auto grad = RmsNormGradOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getDx(), layout),
      p.getType(op.getDgamma(), paramLayout), dy, x, rstd, gamma, sums,
      residual, p.getBuilder().getI64IntegerAttr(getRowSize(op.getX())));
  p.set(op.getDx(), layout, grad.getDx());
  p.set(op.getDgamma(), paramLayout, grad.getDgamma());
  return success();
}

void mlir::optimus::attachNormDecompositions(MLIRContext &context) {
  Decomposition<LayerNormOp, decompose>::attach(context);
  Decomposition<LayerNormGradOp, decompose>::attach(context);
  Decomposition<RmsNormOp, decompose>::attach(context);
  Decomposition<RmsNormGradOp, decompose>::attach(context);
}
