//===- HeadLoss.cpp - The output head with its loss -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

/// The axis among which a head shards the vocabulary: one that does not shard
/// the tokens. One axis at most: where it shards the table's rows already, or where
/// h would be held once for each of its ranks otherwise.
template <typename Op>
static SmallVector<OperandShards> shardVocabulary(Op head) {
  ShardingAttr hidden = getSharding(head.getH()),
               rows = getSharding(head.getTable()),
               tokens = getSharding(head.getTargets());
  if (!hidden || !rows || !tokens)
    return {};
  auto isFree = [&](StringRef axis) {
    for (int64_t dim = 0; dim < tokens.getRank(); ++dim)
      if (llvm::is_contained(tokens.getDimAxes(dim), axis))
        return false;
    return true;
  };
  SmallVector<StringRef> candidates = rows.getDimAxes(0);
  llvm::append_range(candidates, hidden.getDimAxes(hidden.getRank() - 1));
  for (StringRef axis : candidates)
    if (isFree(axis))
      return {{head.getTableMutable().getOperandNumber(), /*dim=*/0, {axis}}};
  return {};
}

SmallVector<OperandShards> HeadLossOp::getOperandShards() {
  return shardVocabulary(*this);
}
SmallVector<OperandShards> HeadLossGradOp::getOperandShards() {
  return shardVocabulary(*this);
}
