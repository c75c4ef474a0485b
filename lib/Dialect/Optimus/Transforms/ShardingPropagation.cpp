//===- ShardingPropagation.cpp - Shardings that follow ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardingPropagation.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-shard"

using namespace mlir;
using namespace mlir::optimus;

/// A value, in messages.
static std::string describeValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    if (buffer && buffer.getOf())
      return ("'" + buffer.getOf().getValue() + "'").str();
    return "argument " + std::to_string(argument.getArgNumber());
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  StringRef path = getPath(op->getLoc());
  return "result " + std::to_string(result.getResultNumber()) + " of '" +
         (path.empty() ? op->getName().getStringRef() : path).str() + "'";
}

void ShardingPropagation::decide(Value value, ShardingAttr sharding,
                                 StringRef why) {
  LDBG() << describeValue(value) << ": " << sharding << ' ' << why;
  State &state = states[value];
  state.sharding = sharding;
  state.why = why;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    state.dims.push_back({true, sharding.getDimAxes(dim)});
}

LogicalResult ShardingPropagation::run() {
  auto open = [&](Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      states[value].dims.resize(type.getRank());
  };
  for (BlockArgument argument : function.getArguments())
    open(argument);
  for (Operation &op : function.front())
    llvm::for_each(op.getResults(), open);
  // Each round but the last makes a dimension known, so there is a last one.
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : function.front().without_terminator()) {
      FailureOr<bool> known = forward(&op);
      if (failed(known))
        return failure();
      changed |= *known;
    }
    for (Operation &op : llvm::reverse(function.front().without_terminator())) {
      FailureOr<bool> known = backward(&op);
      if (failed(known))
        return failure();
      changed |= *known;
    }
  }
  return success();
}

/// The dimensions of `values` that are of a factor.
static auto getDimsOf(int64_t factor, ValueRange values,
                      ArrayRef<SmallVector<int64_t>> factorLists) {
  SmallVector<std::pair<Value, int64_t>> found;
  for (auto [value, factors] : llvm::zip(values, factorLists))
    for (auto [dim, each] : llvm::enumerate(factors))
      if (each == factor)
        found.push_back({value, static_cast<int64_t>(dim)});
  return found;
}

FailureOr<bool> ShardingPropagation::forward(Operation *op) {
  auto interface = dyn_cast<ShardingRuleOpInterface>(op);
  bool changed = false;
  auto makeWhole = [&](Dim &dim) {
    changed |= !std::exchange(dim.isKnown, true);
  };
  if (!interface) {
    for (Value result : op->getResults())
      llvm::for_each(states[result].dims, makeWhole);
    return changed;
  }
  ShardingRule rule = interface.getShardingRule();
  for (auto [result, factors] : llvm::zip(op->getResults(), rule.results))
    for (auto [dim, factor] : llvm::enumerate(factors)) {
      Dim &known = states[result].dims[dim];
      if (known.isKnown)
        continue;
      if (rule.factors[factor].kind == FactorKind::Whole) {
        makeWhole(known);
        continue;
      }
      SmallVector<Source> sources;
      bool areKnown = true;
      for (auto [value, at] :
           getDimsOf(factor, op->getOperands(), rule.operands))
        if (getDim({value, at}).isKnown)
          sources.push_back({value, at});
        else
          areKnown = false;
      FailureOr<bool> follows = follow(op, result, dim, sources);
      if (failed(follows))
        return failure();
      changed |= *follows;
      if (areKnown)
        makeWhole(known);
    }
  return changed;
}

FailureOr<bool> ShardingPropagation::backward(Operation *op) {
  auto interface = dyn_cast<ShardingRuleOpInterface>(op);
  if (!interface)
    return false;
  ShardingRule rule = interface.getShardingRule();
  bool changed = false;
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [dim, factor] : llvm::enumerate(factors)) {
      FactorKind kind = rule.factors[factor].kind;
      if (getDim({operand, static_cast<int64_t>(dim)}).isKnown ||
          kind == FactorKind::Whole || kind == FactorKind::Contracted)
        continue;
      SmallVector<Source> sources;
      auto add = [&](ValueRange values,
                     ArrayRef<SmallVector<int64_t>> factorLists) {
        for (auto [value, at] : getDimsOf(factor, values, factorLists))
          if (value != operand && getDim({value, at}).isKnown)
            sources.push_back({value, at});
      };
      add(op->getResults(), rule.results);
      add(op->getOperands(), rule.operands);
      FailureOr<bool> follows = follow(op, operand, dim, sources);
      if (failed(follows))
        return failure();
      changed |= *follows;
    }
  return changed;
}

FailureOr<bool> ShardingPropagation::follow(Operation *op, Value value,
                                            int64_t dim,
                                            ArrayRef<Source> sources) {
  State &state = states[value];
  std::optional<Source> first;
  for (Source source : sources) {
    ArrayRef<StringRef> axes = getDim(source).axes;
    // An axis shards one dimension, the first that it would.
    bool isTaken = llvm::any_of(state.dims, [&](const Dim &other) {
      return llvm::any_of(axes, [&](StringRef axis) {
        return llvm::is_contained(other.axes, axis);
      });
    });
    if (axes.empty() || isTaken)
      continue;
    if (!first) {
      first = source;
      continue;
    }
    // A shard over data has its parts over data+row: the finer one is followed.
    const ArrayRef<StringRef> before = getDim(*first).axes;
    if (axes.size() > before.size() && axes.take_front(before.size()) == before)
      first = source;
    else if (before.take_front(axes.size()) != axes)
      return op->emitOpError("has conflicting shardings for dimension ")
             << dim << " of " << describeValue(value) << ": "
             << describe(*first) << "; but " << describe(source)
             << "; give it optimus.shardings or a layout";
  }
  if (!first)
    return false;
  Dim &known = state.dims[dim];
  known.axes = getDim(*first).axes;
  known.source = *first;
  known.isKnown = true;
  LDBG() << describeValue(value) << ": dimension " << dim << ' '
         << describe(*first) << " (rule of " << op->getName() << ')';
  return true;
}

std::string ShardingPropagation::describe(Source source) const {
  std::string axes = "over " + llvm::join(getDim(source).axes, "+");
  std::string through;
  while (getDim(source).source.value) {
    through =
        describeValue(source.value) + (through.empty() ? "" : ", ") + through;
    source = getDim(source).source;
  }
  return axes + " as " + describeValue(source.value) + " does, " +
         states.find(source.value)->second.why.str() +
         (through.empty() ? "" : ", through " + through);
}

ShardingAttr ShardingPropagation::get(Value value) const {
  const State &state = states.find(value)->second;
  if (state.sharding)
    return state.sharding;
  SmallVector<SmallVector<StringRef>> dims;
  for (const Dim &dim : state.dims)
    dims.push_back(dim.axes);
  return ShardingAttr::get(
      FlatSymbolRefAttr::get(MeshOp(mesh).getSymNameAttr()), dims);
}
