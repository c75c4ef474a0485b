//===- KernelBuilder.cpp - Writes the body of a kernel ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

template <typename Op> static Num binary(Num a, Num b) {
  KernelBuilder &kernel = *a.kernel;
  if (isa<VectorType>(a.getType()))
    b = kernel.splat(b, a.getType());
  else if (isa<VectorType>(b.getType()))
    a = kernel.splat(a, b.getType());
  ImplicitLocOpBuilder &builder = kernel.getBuilder();
  return kernel.num(
      Op::create(builder, a.value, b.value,
                 arith::FastMathFlagsAttr::get(builder.getContext(),
                                               arith::FastMathFlags::contract)));
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
} // namespace mlir::optimus

//===----------------------------------------------------------------------===//
// Indices and control
//===----------------------------------------------------------------------===//

KernelBuilder::KernelBuilder(func::FuncOp kernel)
    : kernel(kernel), b(kernel.getLoc(), kernel.getContext()) {
  b.setInsertionPointToStart(&kernel.getBody().front());
}

Value KernelBuilder::indexArg(int64_t position) {
  return arith::IndexCastOp::create(b, b.getIndexType(), arg(position));
}

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}
Value KernelBuilder::addIndex(Value a, Value c) {
  return arith::AddIOp::create(b, a, c);
}
Value KernelBuilder::subIndex(Value a, Value c) {
  return arith::SubIOp::create(b, a, c);
}
Value KernelBuilder::mulIndex(Value a, Value c) {
  return arith::MulIOp::create(b, a, c);
}
Value KernelBuilder::less(Value a, Value c) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c);
}
Value KernelBuilder::minIndex(Value a, Value c) {
  return arith::MinSIOp::create(b, a, c);
}
Value KernelBuilder::maxIndex(Value a, Value c) {
  return arith::MaxSIOp::create(b, a, c);
}
Value KernelBuilder::both(Value a, Value c) {
  return arith::AndIOp::create(b, a, c);
}

void KernelBuilder::iterate(function_ref<void(Value)> body) {
  loop(kernel.getArgument(0), kernel.getArgument(1), 1, body);
}

void KernelBuilder::loop(Value from, Value to, int64_t step,
                         function_ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

SmallVector<Value> KernelBuilder::loop(
    Value from, Value to, int64_t step, ArrayRef<Value> init,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, from, to, index(step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  SmallVector<Value> next = body(op.getInductionVar(), op.getRegionIterArgs());
  // Without carried values the loop came with its terminator.
  if (!init.empty())
    scf::YieldOp::create(b, next);
  return op.getResults();
}

void KernelBuilder::when(Value condition, function_ref<void()> body,
                         function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, condition,
                              /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
  if (otherwise) {
    b.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}

void KernelBuilder::columns(Value iteration, int64_t cols,
                            function_ref<void(Value, Type)> body) {
  int64_t whole = cols / kColumns, rest = cols % kColumns;
  auto full = [&] {
    body(mulIndex(iteration, index(kColumns)), vectorOf(kColumns, f32()));
  };
  auto last = [&] {
    for (int64_t at = 0; at < rest; at += kLanes)
      body(index(whole * kColumns + at),
           vectorOf(std::min(kLanes, rest - at), f32()));
  };
  if (rest == 0)
    full();
  else if (whole == 0)
    last();
  else
    when(less(iteration, index(whole)), full, last);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

void KernelBuilder::lanes(int64_t n, function_ref<void(Value, Type)> body) {
  int64_t whole = n - n % kLanes;
  if (whole > 0)
    loop(index(0), index(whole), kLanes,
         [&](Value i) { body(i, vectorOf(kLanes, f32())); });
  if (whole < n)
    body(index(whole), vectorOf(n - whole, f32()));
}

Value KernelBuilder::wholeLanes(Value n) {
  return mulIndex(arith::DivUIOp::create(b, n, index(kLanes)), index(kLanes));
}

void KernelBuilder::lanes(Value n, function_ref<void(Value, Type)> body) {
  Value whole = wholeLanes(n);
  loop(index(0), whole, kLanes,
       [&](Value i) { body(i, vectorOf(kLanes, f32())); });
  loop(whole, n, 1, [&](Value i) { body(i, f32()); });
}

Num KernelBuilder::horizontal(vector::CombiningKind kind, Num value) {
  if (!isa<VectorType>(value.getType()))
    return value;
  return num(vector::ReductionOp::create(b, kind, value.value,
                                         arith::FastMathFlags::reassoc));
}

KernelBuilder::Terms KernelBuilder::sums(int64_t n, int64_t count,
                                         TermsFn terms, bool wide) {
  Type element = wide ? f64() : f32();
  Terms totals(count, constant(0, element));
  // Two registers a sum hide the latency of addition.
  int64_t at = 0;
  for (int64_t width : {2 * kLanes, kLanes}) {
    int64_t end = n - (n - at) % width;
    if (end == at)
      continue;
    Type type = vectorOf(width, f32());
    SmallVector<Value> init(count,
                            constant(0, vectorOf(width, element)).value);
    SmallVector<Value> partial = loop(
        index(at), index(end), width, init, [&](Value i, ValueRange carried) {
          SmallVector<Value> next;
          for (auto [sum, term] : llvm::zip_equal(carried, terms(i, type)))
            next.push_back((num(sum) + term).value);
          return next;
        });
    for (auto [total, part] : llvm::zip_equal(totals, partial))
      total = total + horizontal(vector::CombiningKind::ADD, num(part));
    at = end;
  }
  if (at < n)
    for (auto [total, term] : llvm::zip_equal(
             totals, terms(index(at), vectorOf(n - at, f32()))))
      total = total + horizontal(vector::CombiningKind::ADD, term);
  return totals;
}

KernelBuilder::Terms KernelBuilder::sums(Value n, int64_t count,
                                         TermsFn terms) {
  Value whole = wholeLanes(n);
  Terms totals(count, constant(0, f32()));
  auto accumulate = [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> init(count, constant(0, type).value);
    SmallVector<Value> partial =
        loop(from, to, step, init, [&](Value i, ValueRange carried) {
          SmallVector<Value> next;
          for (auto [sum, term] : llvm::zip_equal(carried, terms(i, type)))
            next.push_back((num(sum) + term).value);
          return next;
        });
    for (auto [total, part] : llvm::zip_equal(totals, partial))
      total = total + horizontal(vector::CombiningKind::ADD, num(part));
  };
  accumulate(index(0), whole, kLanes, vectorOf(kLanes, f32()));
  accumulate(whole, n, 1, f32());
  return totals;
}

Num KernelBuilder::maximum(Value n, function_ref<Num(Value, Type)> term) {
  constexpr int64_t width = 4 * kLanes;
  double lowest = std::numeric_limits<float>::lowest();
  Value whole =
      mulIndex(arith::DivUIOp::create(b, n, index(width)), index(width));
  Num result = constant(lowest, f32());
  auto accumulate = [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> init{constant(lowest, type).value};
    Value partial =
        loop(from, to, step, init, [&](Value i, ValueRange carried) {
          return SmallVector<Value>{
              max(term(i, type), num(carried.front())).value};
        }).front();
    result = max(horizontal(vector::CombiningKind::MAXNUMF, num(partial)),
                 result);
  };
  accumulate(index(0), whole, width, vectorOf(width, f32()));
  accumulate(whole, n, 1, f32());
  return result;
}

//===----------------------------------------------------------------------===//
// Numbers
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

Num KernelBuilder::load(Value buffer, Value offset, Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return num(vector::LoadOp::create(b, vector, buffer, offset));
  return num(memref::LoadOp::create(b, buffer, offset));
}

Value KernelBuilder::loadElement(int64_t buffer, Value offset) {
  return memref::LoadOp::create(b, arg(buffer), offset);
}

void KernelBuilder::store(Num value, int64_t buffer, Value offset) {
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(b, value.value, arg(buffer), offset);
  else
    memref::StoreOp::create(b, value.value, arg(buffer), offset);
}

Num KernelBuilder::splat(Num scalar, Type type) {
  if (scalar.getType() == type)
    return scalar;
  return num(vector::BroadcastOp::create(b, type, scalar.value));
}

Num KernelBuilder::widen(Num value) {
  return num(arith::ExtFOp::create(b, withElement(value.getType(), f64()),
                                   value.value));
}

Num KernelBuilder::narrow(Num value) {
  return num(arith::TruncFOp::create(b, withElement(value.getType(), f32()),
                                     value.value));
}

Num KernelBuilder::sqrt(Num value) {
  return num(math::SqrtOp::create(b, value.value));
}

Num KernelBuilder::select(Value condition, Num a, Num c) {
  return num(arith::SelectOp::create(b, condition, a.value, c.value));
}

Value KernelBuilder::greater(Num a, Num c) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a.value, c.value);
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
      1.0000000377989096,  0.5000000047221087,   0.16666415147533323,
      0.041666352438151616, 0.008375156954669123, 0.001394114660311779};
  Num p = constant(coefficients[5], type);
  for (int degree = 4; degree >= 0; --degree)
    p = p * r + coefficients[degree];
  p = p * r + 1.0;
  Value exponent = arith::SubIOp::create(
      b, arith::BitcastOp::create(b, bits, shifted.value),
      integer(0x4B400000));
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
