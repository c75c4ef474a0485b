//===- Decompositions.cpp - Operations that reduce in the middle -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Partitioner.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace mlir::optimus;

using Axes = SmallVector<StringRef>;

LogicalResult Partitioner::decompose(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LayerNormOp, LayerNormGradOp, EmbeddingOp, EmbeddingGradOp,
            HeadLossOp, HeadLossGradOp, GlobalNormOp>(
          [&](auto concrete) { return decompose(concrete); })
      .Default([](Operation *) { return failure(); });
}

/// The axes of each dimension, as `whole` is sharded.
static SmallVector<Axes> getDims(Value whole) {
  ShardingAttr sharding = getSharding(whole);
  SmallVector<Axes> dims;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    dims.push_back(sharding.getDimAxes(dim));
  return dims;
}

/// All axes that cut some dimension.
static Axes getCuts(ArrayRef<Axes> dims) {
  Axes cuts;
  for (const Axes &axes : dims)
    llvm::append_range(cuts, axes);
  return cuts;
}

/// `axes` without those of `others`.
static Axes without(Axes axes, ArrayRef<StringRef> others) {
  llvm::erase_if(
      axes, [&](StringRef axis) { return llvm::is_contained(others, axis); });
  return axes;
}

static SmallVector<Axes> append(ArrayRef<Axes> dims, Axes last) {
  SmallVector<Axes> all(dims);
  all.push_back(std::move(last));
  return all;
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

SmallVector<int64_t> Partitioner::getRowShape(ArrayRef<int64_t> shape,
                                              int64_t last) {
  SmallVector<int64_t> rows(shape.drop_back());
  rows.push_back(last);
  return rows;
}

Type Partitioner::getRowType(Value whole, int64_t last, ShardingAttr layout) {
  auto type = cast<RankedTensorType>(whole.getType());
  return ccl::getLocalType(getRowShape(type.getShape(), last),
                           getRowShape(classes.getPaddedShape(whole), last),
                           type.getElementType(), layout, mesh);
}

Value Partitioner::convertRows(Value whole, Value local, ShardingAttr from,
                               ShardingAttr to) {
  int64_t last = ccl::getGlobalShape(local.getType()).back();
  return values.convert(local, getRowShape(classes.getPaddedShape(whole), last),
                        from, to, loc);
}

FailureOr<SmallVector<Axes>> Partitioner::getNormLayout(Value result) {
  SmallVector<Axes> dims = getDims(result);
  if (dims.back().size() > 1)
    dims.back().clear();
  int64_t last = dims.size() - 1;
  const DimensionClasses::Class &row = classes.getClass(result, last);
  if (dims.back().empty() && row.getPadded() == row.size)
    return failure();
  return dims;
}

LogicalResult Partitioner::decompose(LayerNormOp op) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getResult());
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  Axes axis = dims.back();
  ArrayRef<Axes> rows = dims.drop_back();
  int64_t parts = mesh.getProduct(axis);
  auto xType = cast<RankedTensorType>(op.getX().getType());
  Value x = get(op.getX(), dims);

  // Each part's own moments, side by side on every rank.
  int64_t size = xType.getShape().back();
  int64_t local = classes.getPaddedShape(op.getX()).back() / parts;
  SmallVector<int64_t> counts;
  for (int64_t part = 0; part < parts; ++part)
    counts.push_back(std::clamp<int64_t>(size - part * local, 0, local));
  ShardingAttr mine = getLayout(append(rows, axis)),
               all = getLayout(append(rows, {}));
  Value moments = RowMomentsOp::create(
      builder, loc, getRowType(op.getX(), 2 * parts, mine), x);
  moments = convertRows(op.getX(), moments, mine, all);
  ShardingAttr rowLayout = getLayout(rows);
  auto merged = MergeMomentsOp::create(
      builder, loc, getType(op.getMean(), rowLayout),
      getType(op.getRstd(), rowLayout), moments,
      builder.getDenseI64ArrayAttr(counts), op.getEpsilonAttr());
  values.add(op.getMean(), rowLayout, merged.getMean());
  values.add(op.getRstd(), rowLayout, merged.getRstd());
  ShardingAttr layout = getLayout(dims);
  set(op.getResult(), layout,
      NormalizeOp::create(builder, loc, getType(op.getResult(), layout), x,
                          merged.getMean(), merged.getRstd(),
                          get(op.getGamma(), axis), get(op.getBeta(), axis)));
  return success();
}

LogicalResult Partitioner::decompose(LayerNormGradOp op) {
  FailureOr<SmallVector<Axes>> layoutOfX = getNormLayout(op.getDx());
  if (failed(layoutOfX))
    return failure();
  ArrayRef<Axes> dims = *layoutOfX;
  Axes axis = dims.back();
  ArrayRef<Axes> rows = dims.drop_back();
  Value dy = get(op.getDy(), dims), x = get(op.getX(), dims);
  Value mean = get(op.getMean(), rows), rstd = get(op.getRstd(), rows);
  Value gamma = get(op.getGamma(), axis);

  ShardingAttr paramLayout = getLayout(axis, getCuts(rows));
  auto params = NormParamGradOp::create(
      builder, loc, getType(op.getDgamma(), paramLayout),
      getType(op.getDbeta(), paramLayout), dy, x, mean, rstd);
  set(op.getDgamma(), paramLayout, params.getDgamma());
  set(op.getDbeta(), paramLayout, params.getDbeta());

  ShardingAttr addends = getLayout(append(rows, {}), axis),
               complete = getLayout(append(rows, {}));
  Value sums =
      NormGradSumsOp::create(builder, loc, getRowType(op.getX(), 2, addends),
                             dy, x, mean, rstd, gamma);
  sums = convertRows(op.getX(), sums, addends, complete);
  Value residual = op.getResidual() ? get(op.getResidual(), dims) : Value();
  ShardingAttr layout = getLayout(dims);
  int64_t size = cast<RankedTensorType>(op.getX().getType()).getShape().back();
  set(op.getDx(), layout,
      NormGradApplyOp::create(builder, loc, getType(op.getDx(), layout), dy, x,
                              mean, rstd, gamma, sums, residual,
                              builder.getI64IntegerAttr(size)));
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

// Tokens stay where they are. What then still cuts the table's rows shares the
// vocabulary: each rank looks its own rows up, and the results are addends.

LogicalResult Partitioner::decompose(EmbeddingOp op) {
  SmallVector<Axes> tokens = getDims(op.getTokens());
  Axes tokenCuts = getCuts(tokens);
  Axes vocabulary = without(getDims(op.getTable())[0], tokenCuts);
  Axes hidden =
      without(without(getDims(op.getResult()).back(), tokenCuts), vocabulary);
  Value table = get(op.getTable(), {vocabulary, hidden});
  ShardingAttr layout = getLayout(append(tokens, hidden), vocabulary);
  set(op.getResult(), layout,
      EmbeddingOp::create(builder, loc, getType(op.getResult(), layout), table,
                          get(op.getTokens())));
  return success();
}

LogicalResult Partitioner::decompose(EmbeddingGradOp op) {
  SmallVector<Axes> tokens = getDims(op.getTokens());
  Axes tokenCuts = getCuts(tokens);
  Axes vocabulary = without(getDims(op.getResult())[0], tokenCuts);
  Axes hidden =
      without(without(getDims(op.getDy()).back(), tokenCuts), vocabulary);
  Value dy = get(op.getDy(), append(tokens, hidden));
  ShardingAttr layout = getLayout({vocabulary, hidden}, tokenCuts);
  // Addends may be added to where they lie; a complete value may not, or it
  // would be counted once for each addend.
  Value accumulate = op.getAccumulate();
  bool inPlace = accumulate && values.has(accumulate, layout);
  auto grad = EmbeddingGradOp::create(
      builder, loc, getType(op.getResult(), layout), dy, get(op.getTokens()),
      inPlace ? get(accumulate, layout) : Value());
  if (!accumulate || inPlace) {
    set(op.getResult(), layout, grad);
    return success();
  }
  ShardingAttr complete = getSharding(op.getResult());
  Value sum = values.convert(grad, classes.getPaddedShape(op.getResult()),
                             layout, complete, loc);
  set(op.getResult(), complete,
      AddOp::create(builder, loc, sum.getType(), get(accumulate, complete),
                    sum));
  return success();
}

//===----------------------------------------------------------------------===//
// Head and loss
//===----------------------------------------------------------------------===//

template <typename Op>
Partitioner::HeadLayout Partitioner::getHeadLayout(Op op) {
  HeadLayout layout;
  layout.targets = getDims(op.getTargets());
  layout.tokens = getCuts(layout.targets);
  Axes vocabulary = getHeadCut(op)->axes;
  if (!vocabulary.empty())
    layout.axis = vocabulary.front();
  layout.table = {vocabulary, {}};
  Axes hidden = getDims(op.getH()).back();
  layout.h = append(layout.targets, hidden == vocabulary ? hidden : Axes());
  return layout;
}

LogicalResult Partitioner::decompose(HeadLossOp op) {
  HeadLayout head = getHeadLayout(op);
  ShardingAttr sum = getLayout({}, head.tokens);
  Value h = get(op.getH(), head.h), table = get(op.getTable(), head.table),
        targets = get(op.getTargets());
  if (head.axis.empty()) {
    cloneLocally(op, {h, table, targets}, {sum, sum});
    return success();
  }
  auto local =
      ccl::HeadLossOp::create(builder, loc, getType(op.getLossSum(), sum),
                              getType(op.getRealCount(), sum), h, table,
                              targets, head.axis, op.getChunk());
  set(op.getLossSum(), sum, local.getLossSum());
  set(op.getRealCount(), sum, local.getRealCount());
  return success();
}

LogicalResult Partitioner::decompose(HeadLossGradOp op) {
  HeadLayout head = getHeadLayout(op);
  ShardingAttr sum = getLayout({}, head.tokens), dh = getLayout(head.h),
               dtable = getLayout(head.table, head.tokens);
  Value h = get(op.getH(), head.h), table = get(op.getTable(), head.table),
        targets = get(op.getTargets());
  if (head.axis.empty()) {
    cloneLocally(op, {h, table, targets}, {sum, sum, dh, dtable});
    return success();
  }
  auto local = ccl::HeadLossGradOp::create(
      builder, loc, getType(op.getLossSum(), sum),
      getType(op.getRealCount(), sum), getType(op.getDh(), dh),
      getType(op.getDtable(), dtable), h, table, targets, head.axis,
      op.getChunk());
  set(op.getLossSum(), sum, local.getLossSum());
  set(op.getRealCount(), sum, local.getRealCount());
  set(op.getDh(), dh, local.getDh());
  set(op.getDtable(), dtable, local.getDtable());
  return success();
}

//===----------------------------------------------------------------------===//
// The global norm
//===----------------------------------------------------------------------===//

// Tensors cut alike are summed together, and sums that have come to lack the
// same axes as well, so that at most three scalars are reduced on a 2D mesh.
LogicalResult Partitioner::decompose(GlobalNormOp op) {
  auto getKey = [&](ArrayRef<StringRef> axes) {
    Axes sorted(axes);
    llvm::sort(sorted);
    return sorted;
  };
  std::map<Axes, SmallVector<Value>> inputs;
  for (Value input : op.getInputs())
    inputs[getKey(getCuts(getDims(input)))].push_back(get(input));
  if (inputs.size() == 1 && inputs.begin()->first.empty())
    return failure();

  auto getSumType = [&](const Axes &axes) {
    return getType(op.getNorm(), getLayout({}, axes));
  };
  std::map<Axes, Value> sums;
  for (auto &[axes, parts] : inputs)
    sums[axes] = SumSquaresOp::create(builder, loc, getSumType(axes), parts);
  for (MeshAxisAttr axis : mesh.getAxisList()) {
    std::map<Axes, Value> reduced;
    for (auto &[axes, sum] : sums) {
      Axes rest = without(axes, axis.getName().getValue());
      Value complete = sum;
      if (rest.size() != axes.size())
        complete = values.convert(sum, {}, getLayout({}, axes),
                                  getLayout({}, rest), loc);
      Value &known = reduced[rest];
      known =
          known ? AddOp::create(builder, loc, getSumType(rest), known, complete)
                : complete;
    }
    sums = std::move(reduced);
  }
  ShardingAttr whole = getLayout({});
  set(op.getNorm(), whole,
      SqrtOp::create(builder, loc, getType(op.getNorm(), whole),
                     sums.begin()->second));
  return success();
}
