//===- DecomposeNorms.cpp - Norms whose rows are sharded --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Norms whose rows are sharded, as x: [{row}, {col}] of tensor<4x16xf32>:
//
//   layer_norm %x -> %0 = row_moments %x            [{row}, {col}] of <4x4>
//                    %1 = ccl.all_gather %0 over col [{row}, {}]
//                    %mean, %rstd = merge_moments %1 {counts = [8, 8]}
//                    normalize %x, %mean, %rstd, %gamma, %beta
//   rms_norm %x   -> %0 = row_dot %x, %x             unreduced {col}
//                    %1 = ccl.all_reduce %0 over col
//                    rms_scale %x, rms_rstd %1, %gamma
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

namespace {
/// How rows are normalised: one axis may shard them.
struct RowLayout {
  SmallVector<Axes> dims;
  Axes axis;
  SmallVector<Axes> rows;
  /// Of x, and of the gradients of parameters.
  ShardingAttr ofX, ofParameters;
  /// The true extent of whole rows.
  int64_t size;
};

/// The local operands of a gradient; a mean and a residual if it has them.
struct GradOperands {
  Value dy, x, mean, rstd, gamma, residual;
};
} // namespace

/// Fails where rows are whole and unpadded.
static FailureOr<RowLayout> getRowLayout(Value result, Partitioner &p) {
  SmallVector<Axes> dims = getDims(result);
  if (dims.back().size() > 1)
    dims.back().clear();
  int64_t last = dims.size() - 1;
  const DimensionClasses::Class &row = p.getClasses().getClass(result, last);
  if (dims.back().empty() && row.getPadded() == row.size)
    return failure();
  Axes axis = dims.back();
  SmallVector<Axes> rows(ArrayRef<Axes>(dims).drop_back());
  return RowLayout{dims,
                   axis,
                   rows,
                   p.getLayout(dims),
                   p.getLayout(axis, getShardingAxes(rows)),
                   cast<RankedTensorType>(result.getType()).getShape().back()};
}

template <typename OpT>
static GradOperands getGradOperands(OpT op, const RowLayout &layout,
                                    Partitioner &p) {
  GradOperands local = {p.get(op.getDy(), layout.dims),
                        p.get(op.getX(), layout.dims),
                        /*mean=*/Value(),
                        p.get(op.getRstd(), layout.rows),
                        p.get(op.getGamma(), layout.axis),
                        /*residual=*/Value()};
  if constexpr (requires { op.getMean(); })
    local.mean = p.get(op.getMean(), layout.rows);
  if (op.getResidual())
    local.residual = p.get(op.getResidual(), layout.dims);
  return local;
}

static LogicalResult decompose(LayerNormOp op, Partitioner &p) {
  FailureOr<RowLayout> layout = getRowLayout(op.getResult(), p);
  if (failed(layout))
    return failure();
  const auto &[dims, axis, rows, ofX, ofParameters, size] = *layout;
  int64_t parts = p.getMesh().getProduct(axis);
  Value x = p.get(op.getX(), dims);

  // Each part's own moments, side by side on every rank.
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
  p.set(op.getResult(), ofX,
        NormalizeOp::create(p.getBuilder(), p.getLoc(),
                            p.getType(op.getResult(), ofX), x, merged.getMean(),
                            merged.getRstd(), p.get(op.getGamma(), axis),
                            p.get(op.getBeta(), axis)));
  return success();
}

static LogicalResult decompose(LayerNormGradOp op, Partitioner &p) {
  FailureOr<RowLayout> layout = getRowLayout(op.getDx(), p);
  if (failed(layout))
    return failure();
  const auto &[dims, axis, rows, ofX, ofParameters, size] = *layout;
  auto [dy, x, mean, rstd, gamma, residual] = getGradOperands(op, *layout, p);

  auto params = NormParamGradOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getDgamma(), ofParameters),
      p.getType(op.getDbeta(), ofParameters), dy, x, mean, rstd);
  p.set(op.getDgamma(), ofParameters, params.getDgamma());
  p.set(op.getDbeta(), ofParameters, params.getDbeta());

  ShardingAttr partial = p.getLayout(append(rows, {}), axis),
               complete = p.getLayout(append(rows, {}));
  Value sums = NormGradSumsOp::create(p.getBuilder(), p.getLoc(),
                                      getRowType(op.getX(), 2, partial, p), dy,
                                      x, mean, rstd, gamma);
  sums = convertRows(op.getX(), sums, partial, complete, p);
  p.set(op.getDx(), ofX,
        NormGradApplyOp::create(p.getBuilder(), p.getLoc(),
                                p.getType(op.getDx(), ofX), dy, x, mean, rstd,
                                gamma, sums, residual,
                                p.getBuilder().getI64IntegerAttr(size)));
  return success();
}

/// Σ a·b·weight over each whole row; `rowStatistic` is a value of the operation
/// with one element a row. Parts of rows give partial sums, which one
/// all-reduce sums.
static Value createRowDot(Value rowStatistic, Value a, Value b, Value weight,
                          const RowLayout &layout, Partitioner &p) {
  ShardingAttr partial = p.getLayout(layout.rows, layout.axis),
               complete = p.getLayout(layout.rows);
  Value sums = RowDotOp::create(p.getBuilder(), p.getLoc(),
                                p.getType(rowStatistic, partial), a, b, weight);
  return p.getValues().convert(sums,
                               p.getClasses().getPaddedShape(rowStatistic),
                               partial, complete, p.getLoc());
}

static LogicalResult decompose(RmsNormOp op, Partitioner &p) {
  FailureOr<RowLayout> layout = getRowLayout(op.getResult(), p);
  if (failed(layout))
    return failure();
  Value x = p.get(op.getX(), layout->dims);
  Value squares = createRowDot(op.getRstd(), x, x, Value(), *layout, p);
  Value rstd = RmsRstdOp::create(p.getBuilder(), p.getLoc(), squares,
                                 layout->size, op.getEpsilon());
  p.getValues().add(op.getRstd(), p.getLayout(layout->rows), rstd);
  p.set(op.getResult(), layout->ofX,
        RmsScaleOp::create(p.getBuilder(), p.getLoc(),
                           p.getType(op.getResult(), layout->ofX), x, rstd,
                           p.get(op.getGamma(), layout->axis)));
  return success();
}

static LogicalResult decompose(RmsNormGradOp op, Partitioner &p) {
  FailureOr<RowLayout> layout = getRowLayout(op.getDx(), p);
  if (failed(layout))
    return failure();
  auto [dy, x, mean, rstd, gamma, residual] = getGradOperands(op, *layout, p);
  Value sums = createRowDot(op.getRstd(), dy, x, gamma, *layout, p);
  auto grad = RmsNormGradOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getDx(), layout->ofX),
      p.getType(op.getDgamma(), layout->ofParameters), dy, x, rstd, gamma, sums,
      residual, p.getBuilder().getI64IntegerAttr(layout->size));
  p.set(op.getDx(), layout->ofX, grad.getDx());
  p.set(op.getDgamma(), layout->ofParameters, grad.getDgamma());
  return success();
}

void mlir::optimus::attachNormDecompositions(MLIRContext &context) {
  Decomposition<LayerNormOp, decompose>::attach(context);
  Decomposition<LayerNormGradOp, decompose>::attach(context);
  Decomposition<RmsNormOp, decompose>::attach(context);
  Decomposition<RmsNormGradOp, decompose>::attach(context);
}
