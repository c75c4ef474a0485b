//===- DimensionGroups.cpp - Dimensions that are one ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/DimensionGroups.h"

using namespace mlir;
using namespace mlir::optimus;

void DimensionGroups::add(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !firstNodes.try_emplace(value, parents.size()).second)
    return;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    parents.push_back(parents.size());
}

void DimensionGroups::addOperation(Operation *op) {
  for (Value result : op->getResults())
    add(result);
  auto interface = dyn_cast<ShardingRuleOpInterface>(op);
  if (!interface)
    return;
  ShardingRule rule = interface.getShardingRule();
  SmallVector<int64_t> representatives(rule.factors.size(), -1);
  auto visit = [&](ValueRange values,
                   ArrayRef<SmallVector<int64_t>> factorLists) {
    for (auto [value, factors] : llvm::zip(values, factorLists))
      for (auto [dim, factor] : llvm::enumerate(factors)) {
        int64_t node = firstNodes.lookup(value) + dim;
        if (representatives[factor] < 0)
          representatives[factor] = node;
        else
          unite(representatives[factor], node);
      }
  };
  visit(op->getOperands(), rule.operands);
  visit(op->getResults(), rule.results);
}

void DimensionGroups::unite(Value a, Value b) {
  for (int64_t dim = 0; dim < cast<RankedTensorType>(a.getType()).getRank();
       ++dim)
    unite(find(a, dim), find(b, dim));
}

int64_t DimensionGroups::find(int64_t node) const {
  while (parents[node] != node)
    node = parents[node] = parents[parents[node]];
  return node;
}

void DimensionGroups::unite(int64_t a, int64_t b) {
  // The earlier one leads, whatever the order of the calls.
  int64_t first = find(a), second = find(b);
  parents[std::max(first, second)] = std::min(first, second);
}
