//===- ReplicateHeads.cpp - Heads of keys for every column ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the ranks of an axis outnumber the heads of keys, padding these would
// pad the heads of queries with them. Here each head of keys is repeated
// instead, for a group of ranks. The program stays a serial one: a weight of
// keys is multiplied by a matrix of zeros and ones. Its partition is what is
// wanted: the weight is gathered, each rank takes the heads that it needs, and
// the product's gradient is their sum over the group, reduce-scattered.
//
//   8 heads of keys, 16 of queries each, 128 channels; on 16 columns r = 2
//
//   %wq: tensor<8x16x128xh>       becomes tensor<16x8x128xh>, byte for byte
//   %wk: tensor<8x128xh>          stays; its channels are sharded
//   %e = constant: tensor<16x8>   E[i, j] = 1 where j = i / 2
//   %wr = matmul %e, %wk          tensor<16x128xh>
//   %k = matmul %x, %wr           tensor<b x s x 16 x 128>
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/DimensionGroups.h"
#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/Repetition.h"
#include "optimus/Dialect/Optimus/Transforms/MeshOption.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

#include <numeric>

#define DEBUG_TYPE "optimus-replicate-heads"

namespace mlir::optimus {
#define GEN_PASS_DEF_REPLICATEHEADSPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// How many ranks the heads are sharded over.
static int64_t countColumns(const Strategy &strategy, const MeshOption &mesh) {
  Role queries{Position::First,
               {{DimensionClass::Heads, LinearSide::Out},
                {DimensionClass::Hidden, LinearSide::In}},
               ""};
  auto getSize = [&](StringRef axis) {
    for (const auto &[name, size] : mesh.axes)
      if (name == axis)
        return size;
    return int64_t(1);
  };
  auto layout = strategy.layOut(
      queries, [&](StringRef axis) { return getSize(axis) > 1; });
  int64_t columns = 1;
  for (StringRef axis : layout.front())
    columns *= getSize(axis);
  return columns;
}

/// How often heads of keys are repeated for `columns` ranks: 1 where padding is
/// possible and costs no more, or where they cannot be. Of each head of keys
/// there are g of queries and as many of the output to be multiplied, and 2 of
/// keys and values: padding makes f (2g + 2) of them, repetition 2g + 2r.
static int64_t getTimes(const AttentionShape &shape, int64_t columns) {
  int64_t times = columns / std::gcd(columns, shape.groups);
  if (!shape.hasGroupDim || shape.queriesPerGroup % times != 0)
    return 1;
  int64_t padded = llvm::alignTo(shape.groups, columns);
  bool isLess = shape.groups * (shape.queriesPerGroup + times) <
                padded * (shape.queriesPerGroup + 1);
  return isLess ? times : 1;
}

namespace {
/// One class of heads of keys, as a layer's, and all that has it.
class HeadClass {
public:
  HeadClass(func::FuncOp function, const DimensionGroups &groups,
            AttentionOp attention, int64_t times)
      : function(function), groups(groups), attention(attention),
        times(times) {
    Value queries = attention.getInputs().front();
    perHead = groups.find(queries, 3);
  }

  /// Takes a value that has the heads as its dimension `at`, unless this pass
  /// cannot change it: then nothing is replicated.
  void add(Value value, int64_t at) { isPossible &= canAdd(value, at); }
  bool replicate();

private:
  bool canAdd(Value value, int64_t at);
  Value repeat(BlockArgument weight);

  func::FuncOp function;
  const DimensionGroups &groups;
  AttentionOp attention;
  int64_t times;
  int64_t perHead;
  bool isPossible = true;
  /// Each with its dimension of heads.
  SmallVector<std::pair<Value, int64_t>> queries, keys;
  SmallVector<BlockArgument> weights;
};
} // namespace

bool HeadClass::canAdd(Value value, int64_t at) {
  auto type = cast<RankedTensorType>(value.getType());
  auto isTwice = [&](ArrayRef<std::pair<Value, int64_t>> values) {
    return !values.empty() && values.back().first == value;
  };
  // Whoever said how it lies means the heads as they are.
  if (getSharding(value) || isTwice(queries) || isTwice(keys))
    return false;
  if (at + 1 < type.getRank() && groups.find(value, at + 1) == perHead) {
    queries.push_back({value, at});
    return true;
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument) {
    keys.push_back({value, at});
    return true;
  }
  weights.push_back(argument);
  return at == 0 && type.getRank() > 1 &&
         isa<FloatType>(type.getElementType()) && getParameterName(argument);
}

static RankedTensorType withDims(Value value,
                                 ArrayRef<std::pair<int64_t, int64_t>> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  for (auto [dim, extent] : dims)
    shape[dim] = extent;
  return type.clone(shape);
}

/// The weight with its heads repeated, made where the first input that it is
/// multiplied with is there: so nothing stands between products of one input.
Value HeadClass::repeat(BlockArgument weight) {
  Operation *reader = nullptr, *last = nullptr;
  for (Operation *user : weight.getUsers())
    if (!reader || user->isBeforeInBlock(reader))
      reader = user;
  for (Value operand : reader->getOperands())
    if (Operation *def = operand.getDefiningOp();
        def && (!last || last->isBeforeInBlock(def)))
      last = def;
  OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
  // A bias is added to a product, which is late enough.
  if (last)
    builder.setInsertionPointAfter(last);
  auto type = cast<RankedTensorType>(weight.getType());
  int64_t rows = type.getDimSize(0) * times;
  Location loc = withPath(weight.getLoc(), getParameterName(weight));
  Value matrix = arith::ConstantOp::create(
      builder, withPart(loc, "repetition"),
      getRepetition(builder.getContext(), rows, type.getDimSize(0)));
  Value repeated =
      MatmulOp::create(builder, withPart(loc, "repeated"),
                       withDims(weight, {{0, rows}}), matrix, weight);
  weight.replaceAllUsesExcept(repeated, repeated.getDefiningOp());
  return repeated;
}

bool HeadClass::replicate() {
  if (!isPossible)
    return false;
  LDBG() << "each head of keys for " << times << " groups of ranks: "
         << describeLocation(attention.getLoc());
  StringAttr hfShape =
      StringAttr::get(function.getContext(), OptimusDialect::kHfShape);
  for (auto [value, dim] : queries) {
    auto type = cast<RankedTensorType>(value.getType());
    ArrayRef<int64_t> shape = type.getShape();
    // Files have it in its old shape.
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (unsigned number = argument.getArgNumber();
          !function.getArgAttr(number, hfShape))
        function.setArgAttr(
            number, hfShape,
            DenseI64ArrayAttr::get(function.getContext(), shape));
    value.setType(withDims(value, {{dim, shape[dim] * times},
                                   {dim + 1, shape[dim + 1] / times}}));
  }
  for (auto [value, dim] : keys)
    value.setType(withDims(
        value, {{dim, cast<RankedTensorType>(value.getType()).getDimSize(dim) *
                          times}}));
  llvm::for_each(weights, [&](BlockArgument weight) { repeat(weight); });
  return true;
}

namespace {
class ReplicateHeadsPass
    : public mlir::optimus::impl::ReplicateHeadsPassBase<ReplicateHeadsPass> {
public:
  using ReplicateHeadsPassBase::ReplicateHeadsPassBase;

  void runOnOperation() override {
    const Strategy *table = lookupStrategy(strategy);
    llvm::Expected<MeshOption> read = MeshOption::parse(mesh);
    // What is wrong with them, or with @loss, later passes say.
    if (!read || !table) {
      llvm::consumeError(read.takeError());
      return;
    }
    int64_t columns = countColumns(*table, *read);
    if (columns == 1)
      return;
    // A cache has the heads as they are, and functions share their weights.
    WalkResult cached = getOperation().walk([](AttentionOp attention) {
      return attention.getCached() ? WalkResult::interrupt()
                                   : WalkResult::advance();
    });
    if (cached.wasInterrupted())
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getBody().hasOneBlock())
        replicate(function, columns);
  }

private:
  void replicate(func::FuncOp function, int64_t columns) {
    DimensionGroups groups;
    for (BlockArgument argument : function.getArguments())
      groups.add(argument);
    for (Operation &op : function.front())
      groups.addOperation(&op);
    llvm::MapVector<int64_t, HeadClass> found;
    for (auto attention : function.getOps<AttentionOp>()) {
      AttentionShape shape(attention.getInputs());
      if (int64_t times = getTimes(shape, columns); times > 1)
        found.try_emplace(groups.find(attention.getInputs().front(), 2),
                          function, groups, attention, times);
    }
    if (found.empty())
      return;
    auto add = [&](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      for (int64_t dim = 0; type && dim < type.getRank(); ++dim)
        if (auto heads = found.find(groups.find(value, dim));
            heads != found.end())
          heads->second.add(value, dim);
    };
    llvm::for_each(function.getArguments(), add);
    for (Operation &op : function.front())
      llvm::for_each(op.getResults(), add);
    for (auto &[group, heads] : found)
      numReplicated += heads.replicate();
    function.setType(FunctionType::get(
        &getContext(), function.front().getArgumentTypes(),
        function.getResultTypes()));
  }
};
} // namespace
