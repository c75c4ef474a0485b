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
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallSet.h"

#include <cmath>

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

double mlir::optimus::estimateRounding(Value value) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> open{value};
  double sum = 0;
  while (!open.empty()) {
    auto result = dyn_cast<OpResult>(open.pop_back_val());
    if (!result || !seen.insert(result).second)
      continue;
    sum += countRoundings(result);
    llvm::append_range(open, result.getOwner()->getOperands());
  }
  return std::sqrt(sum);
}
