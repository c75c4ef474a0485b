//===- NormMeanings.cpp - Norms on whole tensors ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A norm and the parts that it is decomposed into are said with the same terms:
// those of its parts over whole rows.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Meanings.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;

static IntegerAttr getSizeOfRow(Meanings &meanings, Value x) {
  return IntegerAttr::get(IntegerType::get(x.getContext(), 64),
                          meanings.getType(x).getShape().back());
}

/// `result` with what reaches it beside the norm.
static const Term *addResidual(Meanings &meanings, const Term *result,
                               Value residual) {
  if (!residual)
    return result;
  meanings.use(Lemma::FoldedEpilogue);
  return meanings.add({result, meanings.get(residual)}, result->type);
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

/// The mean and the rstd of the rows of `x`.
static void setStatistics(Meanings &meanings, const Term *x, Value mean,
                          Value rstd, Attribute epsilon) {
  StringRef norm = LayerNormOp::getOperationName();
  meanings.set(mean, meanings.make(norm, x, meanings.getType(mean), {},
                                   /*result=*/1));
  meanings.set(rstd, meanings.make(norm, x, meanings.getType(rstd),
                                   {{"epsilon", epsilon}}, /*result=*/2));
}

void LayerNormOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::LayerNormParts);
  const Term *x = meanings.get(getX());
  setStatistics(meanings, x, getMean(), getRstd(), getEpsilonAttr());
  meanings.set(
      getResult(),
      meanings.make(NormalizeOp::getOperationName(),
                    {x, meanings.get(getMean()), meanings.get(getRstd()),
                     meanings.get(getGamma()), meanings.get(getBeta())},
                    meanings.getType(getResult())));
}

static constexpr StringLiteral kCounts = "counts", kSize = "size";

// The moments of shards stand side by side, so their meaning depends on how
// rows are sharded: on how many real elements each shard has.
void RowMomentsOp::setMeanings(Meanings &meanings) {
  RankedTensorType type = meanings.getType(getMoments());
  int64_t size = meanings.getType(getX()).getShape().back();
  int64_t local = shapeOf(getX()).back(), parts = type.getShape().back() / 2;
  SmallVector<int64_t> counts;
  for (int64_t part = 0; part < parts; ++part)
    counts.push_back(std::clamp<int64_t>(size - part * local, 0, local));
  meanings.set(
      getMoments(),
      meanings.make(getOperationName(), meanings.get(getX()), type,
                    {{kCounts, DenseI64ArrayAttr::get(getContext(), counts)}}));
}

void MergeMomentsOp::setMeanings(Meanings &meanings) {
  const Term *moments = meanings.get(getMoments());
  auto parameters = dyn_cast_or_null<DictionaryAttr>(moments->parameters);
  bool isOfRows =
      moments->what.getValue() == RowMomentsOp::getOperationName() &&
      parameters.get(kCounts) == getCountsAttr();
  if (isOfRows) {
    meanings.use(Lemma::MergedMoments);
    setStatistics(meanings, moments->operands.front(), getMean(), getRstd(),
                  getEpsilonAttr());
    return;
  }
  for (auto [number, result] : llvm::enumerate(getResults()))
    meanings.set(result,
                 meanings.make(getOperationName(), moments,
                               meanings.getType(result),
                               {{kCounts, getCountsAttr()},
                                {getEpsilonAttrName(), getEpsilonAttr()}},
                               number));
}

/// dx of a norm's gradient, without a residual.
static const Term *makeGradient(Meanings &meanings,
                                ArrayRef<const Term *> operands,
                                RankedTensorType type, Attribute size) {
  return meanings.make(NormGradApplyOp::getOperationName(), operands, type,
                       {{kSize, size}});
}

void NormGradApplyOp::setMeanings(Meanings &meanings) {
  const Term *dx =
      makeGradient(meanings,
                   {meanings.get(getDy()), meanings.get(getX()),
                    meanings.get(getMean()), meanings.get(getRstd()),
                    meanings.get(getGamma()), meanings.get(getSums())},
                   meanings.getType(getDx()), getSizeAttr());
  meanings.set(getDx(), addResidual(meanings, dx, getResidual()));
}

void LayerNormGradOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::LayerNormParts);
  SmallVector<const Term *> operands;
  for (Value operand : {getDy(), getX(), getMean(), getRstd()})
    operands.push_back(meanings.get(operand));
  for (auto [number, result] : llvm::enumerate(getResults().drop_front()))
    meanings.set(result,
                 meanings.make(NormParamGradOp::getOperationName(), operands,
                               meanings.getType(result), {}, number));
  operands.push_back(meanings.get(getGamma()));
  SmallVector<int64_t> sums(meanings.getType(getX()).getShape());
  sums.back() = 2;
  operands.push_back(meanings.make(
      NormGradSumsOp::getOperationName(), operands,
      RankedTensorType::get(sums, Float32Type::get(getContext()))));
  const Term *dx = makeGradient(meanings, operands, meanings.getType(getDx()),
                                getSizeOfRow(meanings, getX()));
  meanings.set(getDx(), addResidual(meanings, dx, getResidual()));
}

//===----------------------------------------------------------------------===//
// Normalisation by the root mean square
//===----------------------------------------------------------------------===//

void RmsNormOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::RmsNormParts);
  const Term *x = meanings.get(getX());
  RankedTensorType rows = meanings.getType(getRstd());
  const Term *squares =
      meanings.make(RowDotOp::getOperationName(), {x, x}, rows);
  const Term *rstd = meanings.make(
      RmsRstdOp::getOperationName(), squares, rows,
      {{"epsilon", getEpsilonAttr()}, {kSize, getSizeOfRow(meanings, getX())}});
  meanings.set(getRstd(), rstd);
  meanings.set(getResult(), meanings.make(RmsScaleOp::getOperationName(),
                                          {x, rstd, meanings.get(getGamma())},
                                          meanings.getType(getResult())));
}

void RmsNormGradOp::setMeanings(Meanings &meanings) {
  const Term *dy = meanings.get(getDy()), *x = meanings.get(getX()),
             *rstd = meanings.get(getRstd()), *gamma = meanings.get(getGamma()),
             *sums = meanings.get(getSums());
  IntegerAttr size = getSizeAttr();
  if (!sums) {
    meanings.use(Lemma::RmsNormParts);
    sums = meanings.make(RowDotOp::getOperationName(), {dy, x, gamma},
                         meanings.getType(getRstd()));
    size = getSizeOfRow(meanings, getX());
  }
  const Term *dx = meanings.make(getOperationName(), {dy, x, rstd, gamma, sums},
                                 meanings.getType(getDx()), {{kSize, size}});
  meanings.set(getDx(), addResidual(meanings, dx, getResidual()));
  meanings.set(getDgamma(),
               meanings.make(getOperationName(), {dy, x, rstd},
                             meanings.getType(getDgamma()), {}, /*result=*/1));
}
