//===- DecomposeTokenOps.cpp - Tables that are sharded ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the table [{col}, {}] and tokens [{row}, {}], a look-up of a rank finds
// the tokens of its rows of the table, and zeros for all others:
//
//   embedding %t, %k -> %0 = embedding on parts   [{row}, {}, {}] unreduced
//   {col}
//                       ccl.all_reduce %0 over col [{row}, {}, {}]
//
//===----------------------------------------------------------------------===//

#include "Decompositions.h"

using namespace mlir;
using namespace mlir::optimus;

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
  // Ranks add up dh.
  if constexpr (std::is_same_v<Op, HeadLossGradOp>)
    types[2] = cast<RankedTensorType>(types[2]).clone(
        p.getValues().getPartialSumType(op.getDh()));
  auto local = LocalOp::create(
      p.getBuilder(), p.getLoc(), types, operands[0], operands[1], operands[2],
      op.getBias() ? operands[3] : Value(), vocabulary.front(), op.getChunk());
  for (auto [whole, layout, result] :
       llvm::zip(op->getResults(), layouts, local->getResults())) {
    Value complete = result;
    if (layout.getUnreduced().empty())
      complete = p.getValues().complete(result, getElementTypeOrSelf(whole));
    p.set(whole, layout, complete);
  }
  return success();
}

static LogicalResult decompose(HeadLossOp op, Partitioner &p) {
  return decomposeHead<ccl::HeadLossOp>(op, p);
}
static LogicalResult decompose(HeadLossGradOp op, Partitioner &p) {
  return decomposeHead<ccl::HeadLossGradOp>(op, p);
}

void mlir::optimus::attachTokenDecompositions(MLIRContext &context) {
  Decomposition<EmbeddingOp, decompose>::attach(context);
  Decomposition<EmbeddingGradOp, decompose>::attach(context);
  Decomposition<HeadLossOp, decompose>::attach(context);
  Decomposition<HeadLossGradOp, decompose>::attach(context);
}
