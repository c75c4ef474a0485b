//===- KernelBuilder.h - Writes the body of a kernel ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic with operators, and loops over lanes. Loops are written with
// vector operations rather than left to a vectoriser: so in-place kernels need
// no promise about aliasing, and every element goes through the same
// instructions whatever the split among threads. The only licence taken with
// floating point is contraction to fused multiply-add, and the order of the
// last addition across the lanes of a vector.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CPU_KERNELBUILDER_H
#define OPTIMUS_LIB_TARGET_CPU_KERNELBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::optimus {

class KernelBuilder;

/// A number or a vector of numbers, f32 or f64.
struct Num {
  Value value;
  KernelBuilder *kernel = nullptr;

  Type getType() const { return value.getType(); }
};

Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator/(Num a, Num b);
Num operator+(Num a, double b);
Num operator+(double a, Num b);
Num operator-(Num a, double b);
Num operator-(double a, Num b);
Num operator*(Num a, double b);
Num operator*(double a, Num b);
Num operator/(double a, Num b);

class KernelBuilder {
public:
  /// Lanes of the vectors that loops are made of: one AVX-512 register, or
  /// what the back-end splits into smaller ones.
  static constexpr int64_t kLanes = 16;
  /// Columns that one iteration of a column-parallel kernel covers.
  static constexpr int64_t kColumns = 64;

  /// Writes at the start of the entry block of `kernel`.
  explicit KernelBuilder(func::FuncOp kernel);

  ImplicitLocOpBuilder &getBuilder() { return b; }

  /// The operand after begin and end at `position`: a buffer or a scalar.
  Value arg(int64_t position) { return kernel.getArgument(position + 2); }
  /// An i64 scalar operand as an index.
  Value indexArg(int64_t position);

  // -- Indices ----------------------------------------------------------------
  Value index(int64_t value);
  Value addIndex(Value a, Value c);
  Value subIndex(Value a, Value c);
  Value mulIndex(Value a, Value c);
  Value less(Value a, Value c); ///< signed
  Value minIndex(Value a, Value c);
  Value maxIndex(Value a, Value c);
  Value both(Value a, Value c);

  // -- Control ----------------------------------------------------------------
  /// For each of the kernel's iterations.
  void iterate(function_ref<void(Value)> body);
  void loop(Value from, Value to, int64_t step,
            function_ref<void(Value)> body);
  /// A loop that carries values.
  SmallVector<Value>
  loop(Value from, Value to, int64_t step, ArrayRef<Value> init,
       function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void when(Value condition, function_ref<void()> body,
            function_ref<void()> otherwise = nullptr);
  /// Column-parallel kernels: calls `body(first column, type)` for the pieces
  /// of column block `iteration` of `cols` columns.
  void columns(Value iteration, int64_t cols,
               function_ref<void(Value, Type)> body);
  static int64_t getNumColumnBlocks(int64_t cols) {
    return (cols + kColumns - 1) / kColumns;
  }

  // -- Lanes: bodies take an offset and a type, f32 or a vector of it ---------
  /// Covers [0, n).
  void lanes(int64_t n, function_ref<void(Value, Type)> body);
  /// Covers [0, n) for n known at run time; the end of it one by one.
  void lanes(Value n, function_ref<void(Value, Type)> body);

  using Terms = SmallVector<Num, 2>;
  using TermsFn = function_ref<Terms(Value, Type)>;
  /// Sums of `count` terms over [0, n). Terms of element type f64 are summed
  /// so.
  Terms sums(int64_t n, int64_t count, TermsFn terms, bool wide = false);
  Terms sums(Value n, int64_t count, TermsFn terms);
  /// The maximum over [0, n), the lowest finite float if there is none.
  Num maximum(Value n, function_ref<Num(Value, Type)> term);

  // -- Numbers ----------------------------------------------------------------
  Num num(Value value) { return Num{value, this}; }
  Num constant(double value, Type type);
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }
  Type vectorOf(int64_t lanes, Type element) {
    return VectorType::get({lanes}, element);
  }

  Num load(int64_t buffer, Value offset, Type type) {
    return load(arg(buffer), offset, type);
  }
  /// From a buffer that is no operand.
  Num load(Value buffer, Value offset, Type type);
  /// One element of any type.
  Value loadElement(int64_t buffer, Value offset);
  Num loadScalar(int64_t buffer, Value offset) {
    return load(buffer, offset, f32());
  }
  /// Element 0 of a buffer.
  Num loadScalar(int64_t buffer) { return load(buffer, index(0), f32()); }
  void store(Num value, int64_t buffer, Value offset);

  /// The same number in every lane of `type`.
  Num splat(Num scalar, Type type);
  /// f32 to f64 and back.
  Num widen(Num value);
  Num narrow(Num value);
  Num sqrt(Num value);
  Num select(Value condition, Num a, Num c);
  Value greater(Num a, Num c);
  /// The greater; c if a is NaN.
  Num max(Num a, Num c) { return select(greater(a, c), a, c); }
  /// e^x to 1e-7 of its value for x in [-87, 88], clamped outside; NaN stays.
  Num exp(Num x);
  /// Natural logarithm of a positive f64 scalar; NaN and infinity stay.
  Num log(Num x);

  Type withElement(Type type, Type element);

private:
  Num horizontal(vector::CombiningKind kind, Num value);
  /// The whole blocks of kLanes in [0, n), as loop bound.
  Value wholeLanes(Value n);

  func::FuncOp kernel;
  ImplicitLocOpBuilder b;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CPU_KERNELBUILDER_H
