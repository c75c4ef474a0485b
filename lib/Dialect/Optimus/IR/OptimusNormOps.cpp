//===- OptimusNormOps.cpp - Normalisation -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "Einsums.h"
#include "Gradients.h"
#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

//===----------------------------------------------------------------------===//
// What norms decide
//===----------------------------------------------------------------------===//

void LayerNormOp::stateFacts(ModelFacts &facts) {
  facts.decide("norm", "layer_norm");
  facts.decide("norm_eps", getEpsilonAttr());
}

void RmsNormOp::stateFacts(ModelFacts &facts) {
  facts.decide("norm", "rms_norm");
  facts.decide("norm_eps", getEpsilonAttr());
}

//===----------------------------------------------------------------------===//
// Values of rows
//===----------------------------------------------------------------------===//

// What each operation takes and gives, as "label dimensions name": the
// constraint on these dimensions, in which R stands for the leading ones of x,
// n for its last one and p for a pair. x has no label.

template <typename OpT>
static constexpr StringLiteral kRows = "";
template <>
constexpr StringLiteral kRows<LayerNormOp> =
    "- Rn x, C3 n gamma, C3 n beta -> C1 Rn a result, C2 R mean, C2 R rstd";
template <>
constexpr StringLiteral kRows<RmsNormOp> =
    "- Rn x, C3 n gamma -> C1 Rn a result, C2 R rstd";
template <>
constexpr StringLiteral kRows<NormalizeOp> =
    "- Rn x, C2 R mean, C2 R rstd, C3 n gamma, C3 n beta -> C1 Rn a result";
template <>
constexpr StringLiteral kRows<RmsScaleOp> =
    "- Rn x, C2 R rstd, C3 n gamma -> C1 Rn a result";
template <>
constexpr StringLiteral kRows<LayerNormGradOp> =
    "C1 Rn dy, - Rn x, C2 R mean, C2 R rstd, C3 n gamma, C1 Rn residual -> "
    "C1 Rn dx, C3 n dgamma, C3 n dbeta";
template <>
constexpr StringLiteral kRows<RmsNormGradOp> =
    "C1 Rn dy, - Rn x, C2 R rstd, C3 n gamma, C2 R sums, C1 Rn residual -> "
    "C1 Rn dx, C3 n dgamma";
template <>
constexpr StringLiteral kRows<NormGradSumsOp> =
    "C1 Rn dy, - Rn x, C3 R mean, C3 R rstd, C3 n gamma -> C2 Rp sums";
template <>
constexpr StringLiteral kRows<NormGradApplyOp> =
    "C1 Rn dy, - Rn x, C3 R mean, C3 R rstd, C3 n gamma, C2 Rp sums, "
    "C1 Rn residual -> C1 Rn dx";
template <>
constexpr StringLiteral kRows<NormParamGradOp> =
    "C1 Rn dy, - Rn x, C2 R mean, C2 R rstd -> C3 n dgamma, C3 n dbeta";
template <>
constexpr StringLiteral kRows<RowMomentsOp> = "- Rn x -> C1 Rp moments";
template <>
constexpr StringLiteral kRows<MergeMomentsOp> =
    "- Rn moments -> C2 R mean, C2 R rstd";
template <>
constexpr StringLiteral kRows<RowDotOp> =
    "- Rn a, C1 Rn b, C3 n weight -> C2 R a result";

namespace {
struct RowValue {
  StringRef label, dims, name;
  Value value;
  bool isResult;

  bool isX() const { return label == "-"; }
};
} // namespace

/// The values that are there: optional operands may not be.
template <typename OpT>
static SmallVector<RowValue> getRowValues(OpT op) {
  SmallVector<RowValue> values;
  auto add = [&](StringRef list, bool isResult, auto getGroup) {
    for (unsigned group = 0; !list.empty(); ++group) {
      auto [text, others] = list.split(", ");
      auto [label, rest] = text.split(' ');
      auto [dims, name] = rest.split(' ');
      for (Value value : getGroup(group))
        values.push_back({label, dims, name, value, isResult});
      list = others;
    }
  };
  auto [operands, results] = StringRef(kRows<OpT>).split(" -> ");
  add(operands, false, [&](unsigned i) { return op.getODSOperands(i); });
  add(results, true, [&](unsigned i) { return op.getODSResults(i); });
  return values;
}

/// Holds the values of an operation against their constraints, in order.
template <typename OpT>
static LogicalResult verifyRows(OpT op) {
  SmallVector<RowValue> values = getRowValues(op);
  ArrayRef<int64_t> x =
      shapeOf(llvm::find_if(values, [](const RowValue &value) {
                return value.isX();
              })->value);
  if (x.empty())
    return op.emitOpError("expected x of rank 1 at least, found a scalar");
  llvm::stable_sort(values, [](const RowValue &a, const RowValue &b) {
    return a.label < b.label;
  });
  for (const RowValue &value : values) {
    StringRef dims = value.dims;
    SmallVector<int64_t> expected;
    if (dims.consume_front("R"))
      expected.assign(x.begin(), x.end() - 1);
    if (!dims.empty())
      expected.push_back(dims == "n" ? x.back() : 2);
    if (!value.isX() &&
        failed(expectShape(op, value.label, value.name, value.value, expected)))
      return failure();
  }
  return success();
}

/// The rule of an operation's values; see kRows.
template <typename OpT>
static ShardingRule
rowRule(OpT op, ArrayRef<std::pair<char, FactorKind>> kinds = {},
        ArrayRef<std::pair<char, DimensionClass>> dimensions = {}) {
  SmallVector<RowValue> values = getRowValues(op);
  int64_t rank = 0;
  for (const RowValue &value : values)
    if (value.isX())
      rank = rankOf(value.value);
  std::string spec;
  bool inResults = false;
  for (const RowValue &value : values) {
    if (value.isResult && !inResults)
      spec += "->";
    else if (!spec.empty())
      spec += ',';
    inResults = value.isResult;
    for (char c : value.dims)
      spec += c == 'R' ? letters(rank - 1, 'A') : std::string(1, c);
  }
  return ShardingRule::fromEinsum(op, spec, kinds, dimensions);
}

LogicalResult LayerNormOp::verify() { return verifyRows(*this); }
LogicalResult LayerNormGradOp::verify() { return verifyRows(*this); }
LogicalResult RowMomentsOp::verify() { return verifyRows(*this); }
LogicalResult NormalizeOp::verify() { return verifyRows(*this); }
LogicalResult NormGradSumsOp::verify() { return verifyRows(*this); }
LogicalResult NormGradApplyOp::verify() { return verifyRows(*this); }
LogicalResult NormParamGradOp::verify() { return verifyRows(*this); }
LogicalResult RmsNormOp::verify() { return verifyRows(*this); }
LogicalResult RowDotOp::verify() { return verifyRows(*this); }
LogicalResult RmsRstdOp::verify() { return success(); }
LogicalResult RmsScaleOp::verify() { return verifyRows(*this); }

LogicalResult RmsNormGradOp::verify() {
  if (failed(verifyRows(*this)))
    return failure();
  if (static_cast<bool>(getSums()) != getSize().has_value())
    return emitOpError("C4: expected sums and size together, found ")
           << (getSums() ? "sums" : "size") << " alone";
  return success();
}

LogicalResult MergeMomentsOp::verify() {
  ArrayRef<int64_t> moments = shapeOf(getMoments());
  int64_t expected = 2 * getCounts().size();
  if (moments.empty() || moments.back() != expected)
    return emitOpError("C1: expected ")
           << expected << " elements a row for " << getCounts().size()
           << " counts, found " << toString(moments);
  if (failed(verifyRows(*this)))
    return failure();
  if (llvm::any_of(getCounts(), [](int64_t count) { return count < 0; }) ||
      llvm::none_of(getCounts(), [](int64_t count) { return count > 0; }))
    return emitOpError("C3: expected counts of 0 at least, and a positive one, "
                       "found ")
           << toString(getCounts());
  CheckedSize sum = 0;
  for (int64_t count : getCounts())
    sum = sum + count;
  if (!sum.isAtMost(kMaxElements))
    return emitOpError("C3: expected counts of at most ")
           << kMaxElements << " together, found " << sum.toString();
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding rules
//===----------------------------------------------------------------------===//

ShardingRule LayerNormOp::getShardingRule() {
  return rowRule(*this, {{'n', FactorKind::Reduced}},
                 {{'n', DimensionClass::Hidden}});
}
ShardingRule RmsNormOp::getShardingRule() {
  return rowRule(*this, {{'n', FactorKind::Reduced}},
                 {{'n', DimensionClass::Hidden}});
}

ShardingRule LayerNormGradOp::getShardingRule() {
  return rowRule(*this, {{'n', FactorKind::Reduced}});
}
ShardingRule RmsNormGradOp::getShardingRule() {
  // With sums of whole rows nothing is left to be reduced.
  return rowRule(
      *this, {{'n', getSums() ? FactorKind::Parallel : FactorKind::Reduced}});
}

ShardingRule RowMomentsOp::getShardingRule() {
  ShardingRule rule =
      rowRule(*this, {{'n', FactorKind::Reduced}, {'p', FactorKind::Whole}});
  // Moments are made of a part of a row, whatever is beside it.
  for (int64_t factor : {rule.operands[0].back(), rule.results[0].back()})
    rule.factors[factor].standsAlone = true;
  return rule;
}
ShardingRule MergeMomentsOp::getShardingRule() {
  return rowRule(*this, {{'n', FactorKind::Whole}});
}

ShardingRule NormGradSumsOp::getShardingRule() {
  return rowRule(*this,
                 {{'n', FactorKind::Contracted}, {'p', FactorKind::Whole}});
}
ShardingRule NormGradApplyOp::getShardingRule() {
  return rowRule(*this, {{'p', FactorKind::Whole}});
}
ShardingRule NormParamGradOp::getShardingRule() {
  ShardingRule rule = rowRule(*this);
  int64_t last = rule.results[0][0];
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (static_cast<int64_t>(index) != last)
      factor.kind = FactorKind::Contracted;
  return rule;
}

ShardingRule RowDotOp::getShardingRule() {
  return rowRule(*this, {{'n', FactorKind::Contracted}});
}
ShardingRule RmsRstdOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule NormalizeOp::getShardingRule() { return rowRule(*this); }
ShardingRule RmsScaleOp::getShardingRule() { return rowRule(*this); }

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// `create(dy, residual)` makes the gradient of a normalisation; what reaches x
/// around it is added in the same pass over x.
template <typename OpT, typename CreateFn>
static LogicalResult buildNormGradient(OpT op, ArrayRef<Value> resultGradients,
                                       ArrayRef<StringRef> statistics,
                                       GradientAccumulator &gradients,
                                       CreateFn create) {
  if (failed(rejectGradients(op, resultGradients, statistics, 1)))
    return failure();
  Value dy = resultGradients[0];
  auto grad = create(dy, gradients.take(op.getX()));
  // Of x and of the parameters, which follow it.
  for (auto [operand, gradient] :
       llvm::zip_equal(op->getOperands(), grad->getResults()))
    gradients.add(operand, gradient);
  return success();
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  return buildNormGradient(*this, resultGradients, {"mean", "rstd"}, gradients,
                           [&](Value dy, Value residual) {
                             return LayerNormGradOp::create(
                                 builder, getLoc(), dy, getX(), getMean(),
                                 getRstd(), getGamma(), residual);
                           });
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder,
                                       ArrayRef<Value> resultGradients,
                                       GradientAccumulator &gradients) {
  return buildNormGradient(*this, resultGradients, {"rstd"}, gradients,
                           [&](Value dy, Value residual) {
                             return RmsNormGradOp::create(
                                 builder, getLoc(), dy, getX(), getRstd(),
                                 getGamma(), /*sums=*/Value(), residual,
                                 /*size=*/IntegerAttr());
                           });
}
