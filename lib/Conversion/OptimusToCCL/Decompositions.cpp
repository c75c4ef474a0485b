//===- Decompositions.cpp - Operations that reduce in the middle -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h"
#include "optimus/Conversion/OptimusToCCL/Partitioner.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.cpp.inc"

using Axes = SmallVector<StringRef>;

/// The axes of each dimension, as `whole` is sharded.
static SmallVector<Axes> getDims(Value whole) {
  ShardingAttr sharding = getSharding(whole);
  SmallVector<Axes> dims;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    dims.push_back(sharding.getDimAxes(dim));
  return dims;
}

/// All axes that shard some dimension.
static Axes getShardingAxes(ArrayRef<Axes> dims) {
  Axes sharding;
  for (const Axes &axes : dims)
    llvm::append_range(sharding, axes);
  return sharding;
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
// Normalisation
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> getRowShape(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> rows(shape.drop_back());
  rows.push_back(last);
  return rows;
}

/// The type of a tensor with the rows of `whole`, and a last dimension of which
/// this rank's part is `layout`'s.
static Type getRowType(Value whole, int64_t last, ShardingAttr layout,
                       Partitioner &p) {
  auto type = cast<RankedTensorType>(whole.getType());
  return ccl::getLocalType(
      getRowShape(type.getShape(), last),
      getRowShape(p.getClasses().getPaddedShape(whole), last),
      type.getElementType(), layout, p.getMesh());
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
        NormalizeOp::create(p.getBuilder(), p.getLoc(), x, merged.getMean(),
                            merged.getRstd(), p.get(op.getGamma(), axis),
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
        NormGradApplyOp::create(p.getBuilder(), p.getLoc(), dy, x, mean, rstd,
                                gamma, sums, residual,
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
        RmsScaleOp::create(p.getBuilder(), p.getLoc(), x, rstd,
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

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

namespace {
/// How a look-up and its gradient see the table. Tokens stay where they are;
/// what then still shards the table's rows shares the vocabulary: each rank
/// looks its own rows up, and the results are partial sums.
struct TableLayout {
  TableLayout(Value table, Value rows, ArrayRef<StringRef> tokenAxes)
      : vocabulary(without(getDims(table)[0], tokenAxes)),
        hidden(without(without(getDims(rows).back(), tokenAxes), vocabulary)) {}

  Axes vocabulary, hidden;
};
} // namespace

static LogicalResult decompose(EmbeddingOp op, Partitioner &p) {
  SmallVector<Axes> tokens = getDims(op.getTokens());
  auto [vocabulary, hidden] =
      TableLayout(op.getTable(), op.getResult(), getShardingAxes(tokens));
  Value table = p.get(op.getTable(), {vocabulary, hidden});
  ShardingAttr layout = p.getLayout(append(tokens, hidden), vocabulary);
  p.set(op.getResult(), layout,
        EmbeddingOp::create(p.getBuilder(), p.getLoc(),
                            p.getType(op.getResult(), layout), table,
                            p.get(op.getTokens()), op.getPadAttr()));
  return success();
}

static LogicalResult decompose(EmbeddingGradOp op, Partitioner &p) {
  SmallVector<Axes> tokens = getDims(op.getTokens());
  Axes tokenAxes = getShardingAxes(tokens);
  auto [vocabulary, hidden] =
      TableLayout(op.getResult(), op.getDy(), tokenAxes);
  Value dy = p.get(op.getDy(), append(tokens, hidden));
  ShardingAttr layout = p.getLayout({vocabulary, hidden}, tokenAxes);
  // Partial sums may be added to where they lie; a complete value may not, or
  // it would be counted once for each partial sum.
  Value accumulate = op.getAccumulate();
  bool inPlace = accumulate && p.getValues().has(accumulate, layout);
  auto grad = EmbeddingGradOp::create(
      p.getBuilder(), p.getLoc(), p.getType(op.getResult(), layout), dy,
      p.get(op.getTokens()), inPlace ? p.get(accumulate, layout) : Value(),
      op.getPadAttr());
  if (!accumulate || inPlace) {
    p.set(op.getResult(), layout, grad);
    return success();
  }
  ShardingAttr complete = getSharding(op.getResult());
  Value sum =
      p.getValues().convert(grad, p.getClasses().getPaddedShape(op.getResult()),
                            layout, complete, p.getLoc());
  p.set(op.getResult(), complete,
        AddOp::create(p.getBuilder(), p.getLoc(), p.get(accumulate, complete),
                      sum));
  return success();
}

//===----------------------------------------------------------------------===//
// Head and loss
//===----------------------------------------------------------------------===//

// Tokens stay where they are, and sums over them are unreduced. An axis that
// does not shard them shares the vocabulary; h may be sharded by it as well.

/// `LocalOp` is the operation among the ranks of one axis; its results are
/// those of `op`.
template <typename LocalOp, typename Op>
static LogicalResult decomposeHead(Op op, Partitioner &p) {
  SmallVector<Axes> tokens = getDims(op.getTargets());
  Axes tokenAxes = getShardingAxes(tokens), vocabulary;
  for (const OperandShards &shards : op.getOperandShards())
    vocabulary = shards.axes;
  Axes hidden = getDims(op.getH()).back();
  ShardingAttr hLayout =
      p.getLayout(append(tokens, hidden == vocabulary ? hidden : Axes()));
  SmallVector<Value> operands = {p.get(op.getH(), hLayout),
                                 p.get(op.getTable(), {vocabulary, {}}),
                                 p.get(op.getTargets())};
  if (op.getBias())
    operands.push_back(p.get(op.getBias(), vocabulary));
  ShardingAttr sum = p.getLayout({}, tokenAxes);
  SmallVector<ShardingAttr> layouts = {sum, sum};
  if constexpr (std::is_same_v<Op, HeadLossGradOp>) {
    layouts.append({hLayout, p.getLayout({vocabulary, {}}, tokenAxes)});
    if (op.getBias())
      layouts.push_back(p.getLayout(vocabulary, tokenAxes));
  }
  if (vocabulary.empty()) {
    p.cloneLocally(op, operands, layouts);
    return success();
  }
  SmallVector<Type> types;
  for (auto [result, layout] : llvm::zip(op->getResults(), layouts))
    types.push_back(p.getType(result, layout));
  auto local = LocalOp::create(
      p.getBuilder(), p.getLoc(), types, operands[0], operands[1], operands[2],
      op.getBias() ? operands[3] : Value(), vocabulary.front(), op.getChunk());
  for (auto [whole, layout, result] :
       llvm::zip(op->getResults(), layouts, local->getResults()))
    p.set(whole, layout, result);
  return success();
}

static LogicalResult decompose(HeadLossOp op, Partitioner &p) {
  return decomposeHead<ccl::HeadLossOp>(op, p);
}
static LogicalResult decompose(HeadLossGradOp op, Partitioner &p) {
  return decomposeHead<ccl::HeadLossGradOp>(op, p);
}

//===----------------------------------------------------------------------===//
// Another sharding
//===----------------------------------------------------------------------===//

static LogicalResult decompose(ReshardOp op, Partitioner &p) {
  ShardingAttr layout = getSharding(op.getResult());
  p.getValues().add(op.getResult(), layout, p.get(op.getInput(), layout));
  return success();
}

//===----------------------------------------------------------------------===//
// The global norm
//===----------------------------------------------------------------------===//

// Tensors sharded alike are summed together, and sums that have come to lack
// the same axes as well, so that at most three scalars are reduced on a 2D
// mesh.
static LogicalResult decompose(GlobalNormOp op, Partitioner &p) {
  auto getKey = [&](ArrayRef<StringRef> axes) {
    Axes sorted(axes);
    llvm::sort(sorted);
    return sorted;
  };
  std::map<Axes, SmallVector<Value>> inputs;
  for (Value input : op.getInputs())
    inputs[getKey(getShardingAxes(getDims(input)))].push_back(p.get(input));
  if (inputs.size() == 1 && inputs.begin()->first.empty())
    return failure();

  auto getSumType = [&](const Axes &axes) {
    return p.getType(op.getNorm(), p.getLayout({}, axes));
  };
  std::map<Axes, Value> sums;
  for (auto &[axes, parts] : inputs)
    sums[axes] = SumSquaresOp::create(p.getBuilder(), p.getLoc(),
                                      getSumType(axes), parts);
  for (MeshAxisAttr axis : p.getMesh().getAxisList()) {
    std::map<Axes, Value> reduced;
    for (auto &[axes, sum] : sums) {
      Axes rest = without(axes, axis.getName().getValue());
      Value complete = sum;
      if (rest.size() != axes.size())
        complete = p.getValues().convert(sum, {}, p.getLayout({}, axes),
                                         p.getLayout({}, rest), p.getLoc());
      Value &known = reduced[rest];
      known = known ? AddOp::create(p.getBuilder(), p.getLoc(), known, complete)
                    : complete;
    }
    sums = std::move(reduced);
  }
  ShardingAttr whole = p.getLayout({});
  p.set(op.getNorm(), whole,
        SqrtOp::create(p.getBuilder(), p.getLoc(), sums.begin()->second));
  return success();
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

namespace {
/// Attaches the overload of `decompose` for an operation.
template <typename Op>
struct Decomposition
    : DecomposableOpInterface::ExternalModel<Decomposition<Op>, Op> {
  LogicalResult decompose(Operation *op, Partitioner &partitioner) const {
    return ::decompose(cast<Op>(op), partitioner);
  }
};
} // namespace

template <typename... Ops>
static void attach(MLIRContext &context) {
  (Ops::template attachInterface<Decomposition<Ops>>(context), ...);
}

void mlir::optimus::registerDecompositions(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, OptimusDialect *) {
    attach<LayerNormOp, LayerNormGradOp, RmsNormOp, RmsNormGradOp, EmbeddingOp,
           EmbeddingGradOp, HeadLossOp, HeadLossGradOp, ReshardOp,
           GlobalNormOp>(*context);
  });
}
