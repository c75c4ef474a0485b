//===- Num.cpp - Numbers in the body of a kernel ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

template <typename Op>
static Num binary(Num a, Num b,
                  arith::FastMathFlags flags = arith::FastMathFlags::contract) {
  KernelBuilder &kernel = *a.kernel;
  if (isa<VectorType>(a.getType()))
    b = kernel.splat(b, a.getType());
  else if (isa<VectorType>(b.getType()))
    a = kernel.splat(a, b.getType());
  ImplicitLocOpBuilder &builder = kernel.getBuilder();
  return kernel.num(
      Op::create(builder, a.value, b.value,
                 arith::FastMathFlagsAttr::get(builder.getContext(), flags)));
}

static Num like(double value, Num other) {
  return other.kernel->constant(value, other.getType());
}

namespace mlir::optimus {
Num operator+(Num a, Num b) { return binary<arith::AddFOp>(a, b); }
Num operator-(Num a, Num b) { return binary<arith::SubFOp>(a, b); }
Num operator*(Num a, Num b) { return binary<arith::MulFOp>(a, b); }
Num operator/(Num a, Num b) { return binary<arith::DivFOp>(a, b); }
Num operator+(Num a, double b) { return a + like(b, a); }
Num operator+(double a, Num b) { return like(a, b) + b; }
Num operator-(Num a, double b) { return a - like(b, a); }
Num operator-(double a, Num b) { return like(a, b) - b; }
Num operator*(Num a, double b) { return a * like(b, a); }
Num operator*(double a, Num b) { return like(a, b) * b; }
Num operator/(double a, Num b) { return like(a, b) / b; }

Num multiplyRounded(Num a, Num b) {
  return binary<arith::MulFOp>(a, b, arith::FastMathFlags::none);
}
Num sqrt(Num x) { return x.kernel->sqrt(x); }
Num getConstant(Num x, double value) { return like(value, x); }
Num selectPositive(Num x, Num positive, Num other) {
  KernelBuilder &k = *x.kernel;
  return k.select(k.greater(x, like(0, x)), k.splat(positive, x.getType()),
                  k.splat(other, x.getType()));
}
} // namespace mlir::optimus

//===----------------------------------------------------------------------===//
// Types and lanes
//===----------------------------------------------------------------------===//

Type KernelBuilder::withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

Num KernelBuilder::constant(double value, Type type) {
  TypedAttr attr = FloatAttr::get(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return num(arith::ConstantOp::create(b, attr));
}

Value KernelBuilder::splat(Value scalar, Type type) {
  if (scalar.getType() == type)
    return scalar;
  return vector::BroadcastOp::create(b, type, scalar);
}

Num KernelBuilder::splat(Num scalar, Type type) {
  return num(splat(scalar.value, type));
}

Value KernelBuilder::countLanes(Value first, Type type) {
  Value start = arith::IndexCastOp::create(b, i32(), first);
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return start;
  SmallVector<int32_t> numbers(vector.getNumElements());
  std::iota(numbers.begin(), numbers.end(), 0);
  Type integers = withElement(type, i32());
  Value lanes = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<VectorType>(integers),
                                ArrayRef<int32_t>(numbers)));
  return arith::AddIOp::create(b, splat(start, integers), lanes);
}

Num KernelBuilder::widen(Num value, Type element) {
  return num(arith::ExtFOp::create(b, withElement(value.getType(), element),
                                   value.value));
}

Num KernelBuilder::narrow(Num value, Type element) {
  return num(arith::TruncFOp::create(b, withElement(value.getType(), element),
                                     value.value));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Num KernelBuilder::sqrt(Num value) {
  return num(math::SqrtOp::create(b, value.value));
}

Num KernelBuilder::select(Value condition, Num a, Num c) {
  return num(arith::SelectOp::create(b, condition, a.value, c.value));
}

Value KernelBuilder::greater(Num a, Num c) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a.value, c.value);
}

Num KernelBuilder::reduce(vector::CombiningKind kind, Num value) {
  if (!isa<VectorType>(value.getType()))
    return value;
  return num(vector::ReductionOp::create(b, kind, value.value,
                                         arith::FastMathFlags::reassoc));
}

SmallVector<Value> KernelBuilder::addTerms(ValueRange sums,
                                           const Terms &terms) {
  SmallVector<Value> next;
  for (auto [sum, term] : llvm::zip_equal(sums, terms))
    next.push_back((num(sum) + term).value);
  return next;
}

Num KernelBuilder::exp(Num x) {
  Type type = x.getType();
  Type bits = withElement(type, b.getI32Type());
  auto integer = [&](int64_t value) -> Value {
    TypedAttr attr = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(bits))
      attr = DenseElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(b, attr);
  };
  // Comparisons with NaN are false, so NaN passes.
  Num low = constant(-87.0, type), high = constant(88.0, type);
  x = select(greater(low, x), low, x);
  x = select(greater(x, high), high, x);
  // Adding 1.5·2^23 rounds x/ln 2 to an integer, which the low bits of the sum
  // then hold.
  constexpr double magic = 12582912.0;
  Num shifted = x * 1.4426950408889634 + magic;
  Num n = shifted - magic;
  // ln 2 in two parts, so that n times the first is exact.
  Num r = x - n * 0.693145751953125;
  r = r - n * 1.42860682030941723e-6;
  // e^r for |r| <= ln(2)/2 by interpolation in seven Chebyshev nodes; relative
  // error below 2.6e-9.
  static constexpr double coefficients[] = {
      1.0000000377989096,   0.5000000047221087,   0.16666415147533323,
      0.041666352438151616, 0.008375156954669123, 0.001394114660311779};
  Num p = constant(coefficients[5], type);
  for (int degree = 4; degree >= 0; --degree)
    p = p * r + coefficients[degree];
  p = p * r + 1.0;
  Value exponent = arith::SubIOp::create(
      b, arith::BitcastOp::create(b, bits, shifted.value), integer(0x4B400000));
  exponent = arith::ShLIOp::create(
      b, arith::AddIOp::create(b, exponent, integer(127)), integer(23));
  return p * num(arith::BitcastOp::create(b, type, exponent));
}

Num KernelBuilder::log(Num x) {
  Type i64 = b.getI64Type();
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  Value bits = arith::BitcastOp::create(b, i64, x.value);
  Value exponent = arith::SubIOp::create(
      b, arith::ShRUIOp::create(b, bits, integer(52)), integer(1023));
  Value mantissa = arith::OrIOp::create(
      b, arith::AndIOp::create(b, bits, integer((int64_t(1) << 52) - 1)),
      integer(int64_t(1023) << 52));
  Num m = num(arith::BitcastOp::create(b, f64(), mantissa));
  Num e = num(arith::SIToFPOp::create(b, f64(), exponent));
  // m in [√½, √2), so that s below is at most 0.172.
  Value above = greater(m, constant(1.4142135623730951, f64()));
  m = select(above, m * 0.5, m);
  e = select(above, e + 1.0, e);
  // log m = 2 artanh s; the next term of the series is below 1e-16.
  Num s = (m - 1.0) / (m + 1.0);
  Num z = s * s;
  Num series = constant(1.0 / 19, f64());
  for (int k = 17; k >= 1; k -= 2)
    series = series * z + 1.0 / k;
  Num result = 2.0 * s * series + e * 0.6931471805599453;
  Num infinity = constant(std::numeric_limits<double>::infinity(), f64());
  return select(greater(infinity, x), result, x);
}
