//===- OptimusRules.cpp - Sharding rules of the optimus operations --*- C++
//-*-===//
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
                         ArrayRef<std::pair<char, FactorKind>> kinds) {
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
  return rule;
}

/// Letters for `count` dimensions, from `first` on.
static std::string letters(int64_t count, char first) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text.push_back(first + i);
  return text;
}

static int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

ShardingRule MatmulOp::getShardingRule() {
  std::string m = letters(getNumM(), 'A');
  std::string k = letters(getNumK(), 'a');
  std::string n = letters(getNumN(), 'n');
  std::string spec = (getTransposeA() ? k + m : m + k) + "," +
                     (getTransposeB() ? n + k : k + n);
  if (getBias())
    spec += "," + n;
  if (getResidual())
    spec += "," + m + n;
  if (getScale())
    spec += "," + m + n;
  spec += "->" + m + n;
  SmallVector<std::pair<char, FactorKind>> kinds;
  for (char letter : k)
    kinds.push_back({letter, FactorKind::Contracted});
  return ShardingRule::fromEinsum(*this, spec, kinds);
}

/// lhs, rhs -> result with rhs along the last dimensions.
static ShardingRule suffixRule(Operation *op) {
  int64_t rank = rankOf(op->getOperand(0));
  int64_t suffix = rankOf(op->getOperand(1));
  std::string all = letters(rank, 'a');
  return ShardingRule::fromEinsum(op, all + "," + all.substr(rank - suffix) +
                                          "->" + all);
}

ShardingRule AddOp::getShardingRule() { return suffixRule(*this); }
ShardingRule MulOp::getShardingRule() { return suffixRule(*this); }

ShardingRule SumLeadingOp::getShardingRule() {
  int64_t rank = rankOf(getInput());
  int64_t leading = rank - rankOf(getResult());
  std::string all = letters(rank, 'a');
  SmallVector<std::pair<char, FactorKind>> kinds;
  for (int64_t i = 0; i < leading; ++i)
    kinds.push_back({all[i], FactorKind::Contracted});
  return ShardingRule::fromEinsum(*this, all + "->" + all.substr(leading),
                                  kinds);
}

/// Every operand and result has the same dimensions.
static ShardingRule elementwiseRule(Operation *op) {
  std::string all = letters(rankOf(op->getResult(0)), 'a');
  std::string spec = all;
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    spec += "," + all;
  spec += "->" + all;
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    spec += "," + all;
  return ShardingRule::fromEinsum(op, spec);
}

ShardingRule GeluOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule GeluWithSlopeOp::getShardingRule() {
  return elementwiseRule(*this);
}
ShardingRule SqrtOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule ReshardOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule SwigluOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule SwigluGradOp::getShardingRule() { return elementwiseRule(*this); }

/// A rule of rows: `spec` with R standing for the leading dimensions of x and
/// n for its last one.
static ShardingRule rowRule(Operation *op, Value x, StringRef spec,
                            ArrayRef<std::pair<char, FactorKind>> kinds) {
  std::string rows = letters(rankOf(x) - 1, 'A');
  std::string expanded;
  for (char c : spec)
    expanded += c == 'R' ? rows : std::string(1, c);
  return ShardingRule::fromEinsum(op, expanded, kinds);
}

ShardingRule LayerNormOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,n,n->Rn,R,R", {{'n', FactorKind::Reduced}});
}
ShardingRule LayerNormGradOp::getShardingRule() {
  return rowRule(*this, getX(),
                 getResidual() ? "Rn,Rn,R,R,n,Rn->Rn,n,n"
                               : "Rn,Rn,R,R,n->Rn,n,n",
                 {{'n', FactorKind::Reduced}});
}
ShardingRule RowMomentsOp::getShardingRule() {
  ShardingRule rule =
      rowRule(*this, getX(), "Rn->Rp",
              {{'n', FactorKind::Reduced}, {'p', FactorKind::Whole}});
  // Moments are made of a part of a row, whatever is beside it.
  for (int64_t factor : {rule.operands[0].back(), rule.results[0].back()})
    rule.factors[factor].standsAlone = true;
  return rule;
}
ShardingRule MergeMomentsOp::getShardingRule() {
  return rowRule(*this, getMoments(), "Rn->R,R", {{'n', FactorKind::Whole}});
}
ShardingRule NormalizeOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,R,R,n,n->Rn", {});
}
ShardingRule NormGradSumsOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,Rn,R,R,n->Rp",
                 {{'n', FactorKind::Contracted}, {'p', FactorKind::Whole}});
}
ShardingRule NormGradApplyOp::getShardingRule() {
  return rowRule(*this, getX(),
                 getResidual() ? "Rn,Rn,R,R,n,Rp,Rn->Rn" : "Rn,Rn,R,R,n,Rp->Rn",
                 {{'p', FactorKind::Whole}});
}
ShardingRule NormParamGradOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, getX(), "Rn,Rn,R,R->n,n", {});
  int64_t last = rule.results[0][0];
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (static_cast<int64_t>(index) != last)
      factor.kind = FactorKind::Contracted;
  return rule;
}

ShardingRule RmsNormOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,n->Rn,R", {{'n', FactorKind::Reduced}});
}
ShardingRule RmsNormGradOp::getShardingRule() {
  // With sums of whole rows nothing is left to be reduced.
  std::string spec = "Rn,Rn,R,n";
  if (getSums())
    spec += ",R";
  if (getResidual())
    spec += ",Rn";
  FactorKind row = getSums() ? FactorKind::Parallel : FactorKind::Reduced;
  return rowRule(*this, getX(), spec + "->Rn,n", {{'n', row}});
}
ShardingRule RowDotOp::getShardingRule() {
  return rowRule(*this, getA(), getWeight() ? "Rn,Rn,n->R" : "Rn,Rn->R",
                 {{'n', FactorKind::Contracted}});
}
ShardingRule RmsRstdOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule RmsScaleOp::getShardingRule() {
  return rowRule(*this, getX(), "Rn,R,n->Rn", {});
}

ShardingRule EmbeddingOp::getShardingRule() {
  std::string rows = letters(rankOf(getTokens()), 'A');
  return ShardingRule::fromEinsum(*this, "vh," + rows + "->" + rows + "h",
                                  {{'v', FactorKind::Contracted}});
}
ShardingRule EmbeddingGradOp::getShardingRule() {
  std::string rows = letters(rankOf(getTokens()), 'A');
  SmallVector<std::pair<char, FactorKind>> kinds;
  for (char letter : rows)
    kinds.push_back({letter, FactorKind::Contracted});
  return ShardingRule::fromEinsum(
      *this, rows + "h," + rows + (getAccumulate() ? ",vh->vh" : "->vh"),
      kinds);
}
/// The tokens of a head are summed over, its hidden and vocabulary dimensions
/// reduced in the middle.
static ShardingRule headLossRule(Operation *op, Value targets, Value bias,
                                 bool hasGradients) {
  std::string rows = letters(rankOf(targets), 'A');
  std::string spec = rows + "h,vh," + rows + (bias ? ",v" : "") + "->,";
  if (hasGradients)
    spec += "," + rows + "h,vh" + (bias ? ",v" : "");
  SmallVector<std::pair<char, FactorKind>> kinds = {{'h', FactorKind::Reduced},
                                                    {'v', FactorKind::Reduced}};
  for (char letter : rows)
    kinds.push_back({letter, FactorKind::Contracted});
  return ShardingRule::fromEinsum(op, spec, kinds);
}

ShardingRule HeadLossOp::getShardingRule() {
  return headLossRule(*this, getTargets(), getBias(), /*hasGradients=*/false);
}
ShardingRule HeadLossGradOp::getShardingRule() {
  return headLossRule(*this, getTargets(), getBias(), /*hasGradients=*/true);
}

/// Every dimension of every operand is reduced on its own.
static ShardingRule allReducedRule(Operation *op) {
  ShardingRule rule;
  for (Value operand : op->getOperands()) {
    SmallVector<int64_t> &dims = rule.operands.emplace_back();
    for (int64_t size : getShape(operand.getType())) {
      dims.push_back(rule.factors.size());
      rule.factors.push_back({size, FactorKind::Contracted});
    }
  }
  rule.results.resize(op->getNumResults());
  return rule;
}

ShardingRule GlobalNormOp::getShardingRule() {
  ShardingRule rule = allReducedRule(*this);
  for (Factor &factor : rule.factors)
    factor.kind = FactorKind::Reduced;
  return rule;
}
ShardingRule SumSquaresOp::getShardingRule() { return allReducedRule(*this); }
ShardingRule ClipOp::getShardingRule() {
  return ShardingRule::fromEinsum(*this, ",,->,");
}
ShardingRule AdamWOp::getShardingRule() {
  std::string all = letters(rankOf(getParam()), 'a');
  return ShardingRule::fromEinsum(*this, all + "," + all + "," + all + "," +
                                             all + ",,,,,,,,->" + all + "," +
                                             all + "," + all);
}
