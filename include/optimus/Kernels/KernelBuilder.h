//===- KernelBuilder.h - Writes the body of a kernel ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic with operators, and what a schedule makes of loops. The only
// licence taken with floating point is contraction to fused multiply-add, and
// the order of additions, which is the schedule's.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNELBUILDER_H
#define OPTIMUS_KERNELS_KERNELBUILDER_H

#include "optimus/Kernels/KernelSchedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::optimus {

/// A buffer in the body of a kernel. Floats narrower than f32 are loaded and
/// stored as f32.
class KernelBuffer {
public:
  KernelBuffer() = default;
  KernelBuffer(KernelBuilder &kernel, Value memory)
      : kernel(&kernel), memory(memory) {}

  /// Whether the kernel has this operand.
  explicit operator bool() const { return kernel; }

  /// The elements from `offset` on that `type` has.
  Num load(Value offset, Type type) const;
  /// One element.
  Num load(Value offset) const;
  /// Element 0.
  Num load() const;
  /// One element as it is.
  Value loadElement(Value offset) const;
  /// A vector of elements as they are.
  Value loadElements(Value offset, Type type) const;
  void store(Num value, Value offset) const;
  /// A store by one lane for all of an iteration.
  void storeOnce(Num value, Value offset) const;
  void storeElement(Value element, Value offset) const;
  void storeElements(Value elements, Value offset) const;
  /// Copies the elements from `offset` on that `type` has to another buffer: as
  /// they are where both have one type.
  void copyTo(const KernelBuffer &other, Value offset, Value place,
              Type type) const;

  Value getMemory() const { return memory; }

private:
  Type getElementType() const;

  KernelBuilder *kernel = nullptr;
  Value memory;
};

class KernelBuilder {
public:
  /// Writes at the start of the entry block of `function`.
  KernelBuilder(func::FuncOp function, const KernelDescription &description,
                const KernelSchedule &schedule);

  /// Writes a part of the body of `whole`, where that stands: a kernel of its
  /// own, whose operands and scalars are those of these names.
  KernelBuilder(KernelBuilder &whole, const KernelDescription &description,
                const KernelSchedule &schedule, ArrayRef<std::string> buffers,
                ArrayRef<std::string> scalars);
  /// The same, where its operands are these buffers.
  KernelBuilder(KernelBuilder &whole, const KernelDescription &description,
                const KernelSchedule &schedule, ArrayRef<Value> buffers);

  /// Adds the dialects of what it writes.
  static void getDependentDialects(DialectRegistry &registry);

  ImplicitLocOpBuilder &getBuilder() { return b; }
  const KernelSchedule &getSchedule() const { return schedule; }
  func::FuncOp getFunction() const { return function; }
  const KernelDescription &getDescription() const { return description; }
  /// What the iterations of the function range over: in a part of a kernel,
  /// those of the whole.
  const IterationSpace &getSpace() const { return space; }
  /// Calls `write` at the start of the function.
  void atStart(function_ref<void()> write);

  // -- Operands ---------------------------------------------------------------
  /// Buffers by name; of one that the kernel need not have, maybe none.
  KernelBuffer operator[](StringRef name);
  KernelBuffer getOptional(StringRef name);
  /// An i64 scalar, and as an index.
  Value getScalar(StringRef name);
  Value getIndex(StringRef name);
  /// A table in the module, made on first use, with these elements.
  KernelBuffer getConstants(StringRef name,
                            function_ref<std::vector<float>()> values);

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
  /// The range of iterations that a call is to do.
  Value getBegin() { return function.getArgument(0); }
  Value getEnd() { return function.getArgument(1); }
  void loop(Value from, Value to, int64_t step, IndexFn body);
  /// A loop that carries values.
  SmallVector<Value>
  loop(Value from, Value to, int64_t step, ArrayRef<Value> init,
       function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void when(Value condition, function_ref<void()> body,
            function_ref<void()> otherwise = nullptr);

  // -- Iterations, of the space that the description names --------------------
  void forElements(ElementsFn body);
  void forRows(IndexFn body);
  void forItems(IndexFn body);
  void forColumns(LanesFn body);

  // -- Within an iteration: see KernelSchedule --------------------------------
  void lanes(int64_t n, LanesFn body) { schedule.lanes(*this, n, body); }
  void lanes(Value n, LanesFn body) { schedule.lanes(*this, n, body); }
  void each(Value from, Value to, IndexFn body) {
    schedule.each(*this, from, to, body);
  }
  Terms sums(int64_t n, int64_t count, TermsFn terms, bool wide = false) {
    return schedule.sums(*this, n, count, terms, wide);
  }
  Terms sums(Value n, int64_t count, TermsFn terms) {
    return schedule.sums(*this, n, count, terms);
  }
  Num maximum(Value n, function_ref<Num(Value, Type)> term) {
    return schedule.maximum(*this, n, term);
  }
  std::unique_ptr<HeldRow> holdRow(KernelBuffer buffer, Value begin,
                                   int64_t cols, Value n) {
    return schedule.holdRow(*this, buffer, begin, cols, n);
  }
  void once(function_ref<void()> body) { schedule.once(*this, body); }
  void separate() { schedule.separate(*this); }
  KernelBuffer allocateShared(int64_t extent) {
    return {*this, schedule.allocateShared(*this, extent)};
  }
  Terms columnSums(int64_t rows, int64_t count, Type type, TermsFn terms) {
    return schedule.columnSums(*this, rows, count, type, terms);
  }

  // -- Numbers ----------------------------------------------------------------
  Num num(Value value) { return Num{value, this}; }
  Num constant(double value, Type type);
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }
  Type i32() { return b.getI32Type(); }
  Type vectorOf(int64_t lanes, Type element) {
    return VectorType::get({lanes}, element);
  }
  /// A scalar or vector type with another element.
  Type withElement(Type type, Type element);

  /// The same in every lane of `type`.
  Num splat(Num scalar, Type type);
  Value splat(Value scalar, Type type);
  /// first, first + 1, … in the lanes of `type`, of i32.
  Value countLanes(Value first, Type type);
  /// To a wider and to a narrower element.
  Num widen(Num value, Type element);
  Num narrow(Num value, Type element);
  /// f32 to f64 and back.
  Num widen(Num value) { return widen(value, f64()); }
  Num narrow(Num value) { return narrow(value, f32()); }
  Num sqrt(Num value);
  Num select(Value condition, Num a, Num c);
  Value greater(Num a, Num c);
  /// The lanes of a vector combined, in any order; a number as it is.
  Num reduce(vector::CombiningKind kind, Num value);
  /// What a loop over sums carries on: each with its term added.
  SmallVector<Value> addTerms(ValueRange sums, const Terms &terms);
  /// The greater; c if a is NaN.
  Num max(Num a, Num c) { return select(greater(a, c), a, c); }
  /// e^x to 1e-7 of its value for x in [-87, 88], clamped outside; NaN stays.
  Num exp(Num x);
  /// e^(x - most) as the schedule has it.
  Num roughExp(Num x, Num most) { return schedule.roughExp(*this, x, most); }
  /// e^x and a/c for results alone: where all of these are narrow, as the
  /// schedule has it.
  Num resultExp(Num x) {
    return hasNarrowResults() ? schedule.narrowExp(*this, x) : exp(x);
  }
  Num resultQuotient(Num a, Num c) {
    return hasNarrowResults() ? schedule.narrowQuotient(*this, a, c) : a / c;
  }
  /// Natural logarithm of a positive f64 scalar; NaN and infinity stay.
  Num log(Num x);

private:
  bool hasNarrowResults();

  func::FuncOp function;
  const KernelDescription &description;
  const KernelSchedule &schedule;
  IterationSpace space;
  ImplicitLocOpBuilder b;
  /// In the order of the description.
  SmallVector<Value> buffers, scalars;
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNELBUILDER_H
