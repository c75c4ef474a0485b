//===- NormSymbolicValues.cpp - Norms on whole tensors ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A norm and its decomposition have the same terms: those of its parts over
// whole rows.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;

static IntegerAttr getSizeOfRow(SymbolicValues &symbolic, Value x) {
  return IntegerAttr::get(IntegerType::get(x.getContext(), 64),
                          symbolic.getType(x).getShape().back());
}

/// `result` with what reaches it beside the norm.
static const Term *addResidual(SymbolicValues &symbolic, const Term *result,
                               Value residual) {
  if (!residual)
    return result;
  symbolic.use(Lemma::FoldedEpilogue);
  return symbolic.add({result, symbolic.get(residual)}, result->type);
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

/// The mean and the rstd of the rows of `x`.
static void setStatistics(SymbolicValues &symbolic, const Term *x, Value mean,
                          Value rstd, Attribute epsilon) {
  StringRef norm = LayerNormOp::getOperationName();
  symbolic.set(mean, symbolic.make(norm, x, symbolic.getType(mean), {},
                                   /*result=*/1));
  symbolic.set(rstd, symbolic.make(norm, x, symbolic.getType(rstd),
                                   {{"epsilon", epsilon}}, /*result=*/2));
}

void LayerNormOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::LayerNormParts);
  const Term *x = symbolic.get(getX());
  setStatistics(symbolic, x, getMean(), getRstd(), getEpsilonAttr());
  symbolic.set(
      getResult(),
      symbolic.make(NormalizeOp::getOperationName(),
                    {x, symbolic.get(getMean()), symbolic.get(getRstd()),
                     symbolic.get(getGamma()), symbolic.get(getBeta())},
                    symbolic.getType(getResult())));
}

static constexpr StringLiteral kCounts = "counts", kSize = "size";

// The moments of shards stand side by side, so their terms depend on how
// rows are sharded: on how many real elements each shard has.
void RowMomentsOp::setSymbolicValues(SymbolicValues &symbolic) {
  RankedTensorType type = symbolic.getType(getMoments());
  int64_t size = symbolic.getType(getX()).getShape().back();
  int64_t local = shapeOf(getX()).back(), parts = type.getShape().back() / 2;
  SmallVector<int64_t> counts;
  for (int64_t part = 0; part < parts; ++part)
    counts.push_back(std::clamp<int64_t>(size - part * local, 0, local));
  symbolic.set(
      getMoments(),
      symbolic.make(getOperationName(), symbolic.get(getX()), type,
                    {{kCounts, DenseI64ArrayAttr::get(getContext(), counts)}}));
}

void MergeMomentsOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *moments = symbolic.get(getMoments());
  auto parameters = dyn_cast_or_null<DictionaryAttr>(moments->parameters);
  bool isOfRows =
      moments->what.getValue() == RowMomentsOp::getOperationName() &&
      parameters.get(kCounts) == getCountsAttr();
  if (isOfRows) {
    symbolic.use(Lemma::MergedMoments);
    setStatistics(symbolic, moments->operands.front(), getMean(), getRstd(),
                  getEpsilonAttr());
    return;
  }
  for (auto [number, result] : llvm::enumerate(getResults()))
    symbolic.set(result,
                 symbolic.make(getOperationName(), moments,
                               symbolic.getType(result),
                               {{kCounts, getCountsAttr()},
                                {getEpsilonAttrName(), getEpsilonAttr()}},
                               number));
}

/// dx of a norm's gradient, without a residual.
static const Term *makeGradient(SymbolicValues &symbolic,
                                ArrayRef<const Term *> operands,
                                RankedTensorType type, Attribute size) {
  return symbolic.make(NormGradApplyOp::getOperationName(), operands, type,
                       {{kSize, size}});
}

void NormGradApplyOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *dx =
      makeGradient(symbolic,
                   {symbolic.get(getDy()), symbolic.get(getX()),
                    symbolic.get(getMean()), symbolic.get(getRstd()),
                    symbolic.get(getGamma()), symbolic.get(getSums())},
                   symbolic.getType(getDx()), getSizeAttr());
  symbolic.set(getDx(), addResidual(symbolic, dx, getResidual()));
}

void LayerNormGradOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::LayerNormParts);
  SmallVector<const Term *> operands;
  for (Value operand : {getDy(), getX(), getMean(), getRstd()})
    operands.push_back(symbolic.get(operand));
  for (auto [number, result] : llvm::enumerate(getResults().drop_front()))
    symbolic.set(result,
                 symbolic.make(NormParamGradOp::getOperationName(), operands,
                               symbolic.getType(result), {}, number));
  operands.push_back(symbolic.get(getGamma()));
  SmallVector<int64_t> sums(symbolic.getType(getX()).getShape());
  sums.back() = 2;
  operands.push_back(symbolic.make(
      NormGradSumsOp::getOperationName(), operands,
      RankedTensorType::get(sums, Float32Type::get(getContext()))));
  const Term *dx = makeGradient(symbolic, operands, symbolic.getType(getDx()),
                                getSizeOfRow(symbolic, getX()));
  symbolic.set(getDx(), addResidual(symbolic, dx, getResidual()));
}

//===----------------------------------------------------------------------===//
// Normalisation by the root mean square
//===----------------------------------------------------------------------===//

void RmsNormOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::RmsNormParts);
  const Term *x = symbolic.get(getX());
  RankedTensorType rows = symbolic.getType(getRstd());
  const Term *squares =
      symbolic.make(RowDotOp::getOperationName(), {x, x}, rows);
  const Term *rstd = symbolic.make(
      RmsRstdOp::getOperationName(), squares, rows,
      {{"epsilon", getEpsilonAttr()}, {kSize, getSizeOfRow(symbolic, getX())}});
  symbolic.set(getRstd(), rstd);
  symbolic.set(getResult(), symbolic.make(RmsScaleOp::getOperationName(),
                                          {x, rstd, symbolic.get(getGamma())},
                                          symbolic.getType(getResult())));
}

void RmsNormGradOp::setSymbolicValues(SymbolicValues &symbolic) {
  const Term *dy = symbolic.get(getDy()), *x = symbolic.get(getX()),
             *rstd = symbolic.get(getRstd()), *gamma = symbolic.get(getGamma()),
             *sums = symbolic.get(getSums());
  IntegerAttr size = getSizeAttr();
  if (!sums) {
    symbolic.use(Lemma::RmsNormParts);
    sums = symbolic.make(RowDotOp::getOperationName(), {dy, x, gamma},
                         symbolic.getType(getRstd()));
    size = getSizeOfRow(symbolic, getX());
  }
  const Term *dx = symbolic.make(getOperationName(), {dy, x, rstd, gamma, sums},
                                 symbolic.getType(getDx()), {{kSize, size}});
  symbolic.set(getDx(), addResidual(symbolic, dx, getResidual()));
  symbolic.set(getDgamma(),
               symbolic.make(getOperationName(), {dy, x, rstd},
                             symbolic.getType(getDgamma()), {}, /*result=*/1));
}
