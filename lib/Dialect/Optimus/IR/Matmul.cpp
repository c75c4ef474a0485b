//===- Matmul.cpp - Products of matrices ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "Einsums.h"
#include "Gradients.h"
#include "Operands.h"
#include "ShapeChecks.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Form
//===----------------------------------------------------------------------===//

void MatmulOp::build(OpBuilder &builder, OperationState &state, Type result,
                     Value a, Value b, int64_t contracting, bool transposeA,
                     bool transposeB) {
  build(builder, state, result, a, b, /*bias=*/Value(), /*residual=*/Value(),
        /*scale=*/Value(), builder.getI64IntegerAttr(contracting),
        transposeA ? builder.getUnitAttr() : UnitAttr(),
        transposeB ? builder.getUnitAttr() : UnitAttr());
}

Type optimus::detail::getProductType(Value a, Value b, int64_t contracting,
                                     bool transposeA, bool transposeB) {
  auto withoutK = [&](ArrayRef<int64_t> shape, bool startsWithK) {
    // One that has no K is for the verifier to refuse.
    int64_t k = std::clamp<int64_t>(contracting, 0, shape.size());
    return startsWithK ? shape.drop_front(k) : shape.drop_back(k);
  };
  auto type = cast<RankedTensorType>(a.getType());
  SmallVector<int64_t> shape(withoutK(type.getShape(), transposeA));
  llvm::append_range(shape, withoutK(shapeOf(b), !transposeB));
  return RankedTensorType::get(shape, type.getElementType());
}

static SmallVector<int64_t> range(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

int64_t MatmulOp::getNumM() { return shapeOf(getA()).size() - getNumK(); }
int64_t MatmulOp::getNumN() { return shapeOf(getB()).size() - getNumK(); }

SmallVector<int64_t> MatmulOp::getMDimsOfA() {
  return getTransposeA() ? range(getNumK(), getNumK() + getNumM())
                         : range(0, getNumM());
}

SmallVector<int64_t> MatmulOp::getKDimsOfA() {
  return getTransposeA() ? range(0, getNumK())
                         : range(getNumM(), getNumM() + getNumK());
}

SmallVector<int64_t> MatmulOp::getKDimsOfB() {
  return getTransposeB() ? range(getNumN(), getNumN() + getNumK())
                         : range(0, getNumK());
}

SmallVector<int64_t> MatmulOp::getNDimsOfB() {
  return getTransposeB() ? range(0, getNumN())
                         : range(getNumK(), getNumK() + getNumN());
}

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  int64_t k = getContracting();
  int64_t rankA = a.size(), rankB = b.size();
  if (k < 1 || rankA < k || rankB < k)
    return emitOpError("C1: expected operands of at least `contracting` "
                       "dimensions, and one contracted at least; found ")
           << k << " contracted of " << toString(a) << " and " << toString(b);
  auto pick = [](ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
    return llvm::map_to_vector(dims, [&](int64_t dim) { return shape[dim]; });
  };
  SmallVector<int64_t> ka = pick(a, getKDimsOfA()), kb = pick(b, getKDimsOfB());
  if (ka != kb)
    return emitOpError("C2: expected equal contracted dimensions, found ")
           << toString(ka) << " of a and " << toString(kb) << " of b";
  SmallVector<int64_t> expected = pick(a, getMDimsOfA());
  SmallVector<int64_t> n = pick(b, getNDimsOfB());
  expected.append(n);
  if (failed(expectShape(*this, "C3", "a result", getResult(), expected)))
    return failure();
  if (getBias() && failed(expectShape(*this, "C4", "bias", getBias(), n)))
    return failure();
  if (getResidual() &&
      failed(expectShape(*this, "C4", "residual", getResidual(), expected)))
    return failure();
  if (getScale() &&
      failed(expectShape(*this, "C4", "scale", getScale(), expected)))
    return failure();
  Type factors = elementTypeOf(getA()), elements = elementTypeOf(getResult());
  if (failed(expectElements(*this, "C5", "b", getB(), factors)) ||
      failed(expectElements(*this, "C5", "a result", getResult(), factors,
                            /*orF32=*/true)) ||
      failed(expectElements(*this, "C5", "bias", getBias(), elements,
                            /*orF32=*/true)) ||
      failed(expectElements(*this, "C5", "residual", getResidual(), elements,
                            /*orF32=*/true)))
    return failure();
  return expectElements(*this, "C5", "scale", getScale(), elements,
                        /*orF32=*/true);
}

//===----------------------------------------------------------------------===//
// Sharding and gradient
//===----------------------------------------------------------------------===//

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

// The result is dense over [M…, N…]; A holds M and K, B holds K and N. A
// product contracts the trailing group of its first operand and the leading
// group of its second, unless transposed, so the transposition flags name
// either order of either gradient and no dimension is ever moved:
//
//   A is [M, K]: dA = dy·Bᵀ          A is [K, M]: dA = B·dyᵀ
//   B is [K, N]: dB = Aᵀ·dy          B is [N, K]: dB = dyᵀ·A
LogicalResult MatmulOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> resultGradients,
                                      GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  if (getBias() || getResidual() || getScale())
    return emitOpError("with bias, residual or scale has no gradient; "
                       "differentiate before operations are fused");
  int64_t numM = getNumM(), numN = getNumN();
  if (numM == 0 || numN == 0)
    return emitOpError("needs a dimension that is not contracted in each "
                       "operand to have a gradient");
  Value a = getA(), b = getB();
  bool ta = getTransposeA(), tb = getTransposeB();
  // Factors have one element type.
  dy = castLike(builder, a, dy);

  Value da = ta ? MatmulOp::create(builder, getLoc(), b, dy, numN,
                                   /*transposeA=*/tb, /*transposeB=*/true)
                : MatmulOp::create(builder, getLoc(), dy, b, numN,
                                   /*transposeA=*/false, /*transposeB=*/!tb);
  gradients.add(a, da);
  Value db = tb ? MatmulOp::create(builder, getLoc(), dy, a, numM,
                                   /*transposeA=*/true, /*transposeB=*/ta)
                : MatmulOp::create(builder, getLoc(), a, dy, numM,
                                   /*transposeA=*/!ta, /*transposeB=*/false);
  gradients.add(b, db);
  return success();
}

//===----------------------------------------------------------------------===//
// What passes ask
//===----------------------------------------------------------------------===//

Contribution MatmulOp::getContribution(OpOperand &operand) {
  bool isTerm = isOneOf(operand, getBiasMutable()) ||
                isOneOf(operand, getResidualMutable());
  return isTerm ? Contribution::Linear : Contribution::Factor;
}

Work MatmulOp::getWork() {
  auto multiply = [](Value tensor, ArrayRef<int64_t> dims) {
    int64_t extent = 1;
    for (int64_t dim : dims)
      extent *= shapeOf(tensor)[dim];
    return extent;
  };
  return {.kind = Work::Product,
          .m = multiply(getA(), getMDimsOfA()),
          .n = multiply(getB(), getNDimsOfB()),
          .k = multiply(getA(), getKDimsOfA()),
          .transA = getTransposeA(),
          .transB = getTransposeB()};
}

bool mlir::optimus::isProduct(Operation *op) {
  auto working = dyn_cast<WorkOpInterface>(op);
  return working && working.getWork().kind == Work::Product;
}

//===----------------------------------------------------------------------===//
// On whole tensors
//===----------------------------------------------------------------------===//

const Term *optimus::detail::makeProduct(SymbolicValues &symbolic, Value a,
                                         Value b, Value result,
                                         int64_t contracting, bool transposeA,
                                         bool transposeB) {
  Builder builder(result.getContext());
  auto flag = [&](bool isSet) {
    return isSet ? builder.getUnitAttr() : UnitAttr();
  };
  return symbolic.makeNarrowed(
      MatmulOp::getOperationName(), {symbolic.get(a), symbolic.get(b)},
      symbolic.getType(result),
      {{"contracting", builder.getI64IntegerAttr(contracting)},
       {"transpose_a", flag(transposeA)},
       {"transpose_b", flag(transposeB)}});
}

void MatmulOp::setSymbolicValues(SymbolicValues &symbolic) {
  RankedTensorType type = symbolic.getType(getResult());
  const Term *result =
      detail::makeProduct(symbolic, getA(), getB(), getResult(),
                          getContracting(), getTransposeA(), getTransposeB());
  for (Value addend : {getBias(), getResidual()})
    if (addend) {
      symbolic.use(Lemma::FoldedEpilogue);
      result = symbolic.add({result, symbolic.get(addend)}, type);
    }
  if (getScale()) {
    symbolic.use(Lemma::FoldedEpilogue);
    result = symbolic.multiply(result, symbolic.get(getScale()), type);
  }
  symbolic.set(getResult(), result);
}
