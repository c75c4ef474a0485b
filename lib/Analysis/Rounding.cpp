//===- Rounding.cpp - What rounding does to a function's results *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/Rounding.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallSet.h"

#include <cmath>
#include <utility>
#include <vector>

using namespace mlir;
using namespace mlir::optimus;

static double countByRule(ShardingRuleOpInterface op, unsigned result) {
  ShardingRule rule = op.getShardingRule();
  llvm::SmallSet<int64_t, 8> read, written;
  for (ArrayRef<int64_t> dims : rule.operands)
    read.insert(dims.begin(), dims.end());
  written.insert(rule.results[result].begin(), rule.results[result].end());
  double middle = 0, lost = 1;
  bool loses = false;
  for (auto [number, factor] : llvm::enumerate(rule.factors)) {
    if (factor.kind == FactorKind::Reduced || factor.kind == FactorKind::Whole)
      middle += factor.size;
    else if (read.contains(number) && !written.contains(number)) {
      lost *= factor.size;
      loses = true;
    }
  }
  return RoundingOpInterface::kElementwise + middle + (loses ? lost : 0);
}

/// A rounding to a narrow type, as the number of roundings to f32 whose errors
/// amount to as much: they add up as their squares do.
static double countNarrowRoundings(Operation *op, Type type, double others) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element || element.getWidth() >= 32)
    return 0;
  // What only moves elements leaves them as they are.
  bool isMoved = llvm::any_of(op->getOperandTypes(), [&](Type operand) {
    return getElementTypeOrSelf(operand) == element;
  });
  if (others == 0 && isMoved)
    return 0;
  auto getPrecision = [](const llvm::fltSemantics &semantics) {
    return APFloat::semanticsPrecision(semantics);
  };
  return std::exp2(2.0 * (getPrecision(APFloat::IEEEsingle()) -
                          getPrecision(element.getFloatSemantics())));
}

static double countOwnRoundings(OpResult result) {
  Operation *op = result.getOwner();
  unsigned number = result.getResultNumber();
  if (auto own = dyn_cast<RoundingOpInterface>(op))
    return own.countRoundings(number);
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op))
    return countByRule(ruled, number);
  return RoundingOpInterface::kElementwise;
}

double mlir::optimus::countRoundings(OpResult result) {
  double own = countOwnRoundings(result);
  return own + countNarrowRoundings(result.getOwner(), result.getType(), own);
}

namespace {
/// A result, its sources, and the last value whose search found it.
struct Rounded {
  double roundings = 0;
  SmallVector<unsigned, 4> from;
  int64_t foundFor = -1;
};
} // namespace

static std::vector<Rounded>
countAll(Block &body, const llvm::DenseMap<Value, unsigned> &numbers) {
  std::vector<Rounded> all(numbers.size());
  for (Operation &op : body)
    for (OpResult result : op.getResults()) {
      Rounded &rounded = all[numbers.at(result)];
      rounded.roundings = countRoundings(result);
      for (Value operand : op.getOperands())
        if (auto found = numbers.find(operand); found != numbers.end())
          rounded.from.push_back(found->second);
    }
  return all;
}

SmallVector<double> mlir::optimus::estimateRoundings(Block &body) {
  llvm::DenseMap<Value, unsigned> numbers;
  for (Operation &op : body)
    for (Value result : op.getResults())
      numbers.try_emplace(result, numbers.size());
  std::vector<Rounded> all = countAll(body, numbers);
  SmallVector<double> estimates;
  for (auto [index, value] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    SmallVector<unsigned> open;
    if (auto found = numbers.find(value); found != numbers.end())
      open.push_back(found->second);
    double sum = 0;
    while (!open.empty()) {
      Rounded &rounded = all[open.pop_back_val()];
      if (std::exchange(rounded.foundFor, index) == int64_t(index))
        continue;
      sum += rounded.roundings;
      llvm::append_range(open, rounded.from);
    }
    estimates.push_back(std::sqrt(sum));
  }
  return estimates;
}
