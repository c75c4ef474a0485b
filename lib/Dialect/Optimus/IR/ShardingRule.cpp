//===- ShardingRule.cpp - How dimensions relate -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

static ArrayRef<int64_t> getShape(Type type) {
  return cast<RankedTensorType>(type).getShape();
}

ShardingRule
ShardingRule::fromEinsum(Operation *op, StringRef spec,
                         ArrayRef<std::pair<char, FactorKind>> kinds,
                         ArrayRef<std::pair<char, DimensionClass>> dimensions) {
  ShardingRule rule;
  llvm::SmallDenseMap<char, int64_t> numbers;
  auto read = [&](StringRef side, TypeRange types,
                  SmallVector<SmallVector<int64_t>> &lists) {
    SmallVector<StringRef> terms;
    if (!types.empty())
      side.split(terms, ',');
    assert(terms.size() == types.size() && "one term for each value");
    for (auto [term, type] : llvm::zip(terms, types)) {
      SmallVector<int64_t> &dims = lists.emplace_back();
      ArrayRef<int64_t> shape = getShape(type);
      assert(term.size() == shape.size() && "one letter for each dimension");
      for (auto [letter, size] : llvm::zip(term, shape)) {
        auto [it, inserted] = numbers.try_emplace(letter, rule.factors.size());
        if (inserted)
          rule.factors.push_back({size, FactorKind::Parallel});
        dims.push_back(it->second);
      }
    }
  };
  auto [left, right] = spec.split("->");
  read(left, op->getOperandTypes(), rule.operands);
  read(right, op->getResultTypes(), rule.results);
  for (auto [letter, kind] : kinds) {
    auto it = numbers.find(letter);
    if (it != numbers.end())
      rule.factors[it->second].kind = kind;
  }
  for (auto [letter, dimension] : dimensions) {
    auto it = numbers.find(letter);
    if (it != numbers.end())
      rule.factors[it->second].dimension = dimension;
  }
  return rule;
}
