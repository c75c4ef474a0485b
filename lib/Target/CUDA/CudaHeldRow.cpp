//===- CudaHeldRow.cpp - A row in the registers of a team -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread of the team loads its pieces of the row once, without a loop, and
// has them from then on, as they are in memory:
//
//   512 threads, 50,304 columns of bf16    ->    13 pieces of 8 in 52 registers
//
//===----------------------------------------------------------------------===//

#include "CudaThreads.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <climits>
#include <limits>
#include <numbers>
#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

/// The most that a thread keeps of a row: half of the registers that the
/// largest block leaves it.
static constexpr int64_t kHeldRegisters = 64;
static constexpr int64_t kRegisterBits = 32;

namespace {
class CudaHeldRow final : public HeldRow {
public:
  CudaHeldRow(KernelBuilder &k, KernelBuffer buffer, Value begin, int64_t cols,
              Value n);

  Num maximum() override;
  Num sum(function_ref<Num(Num)> term) override;
  void forEach(function_ref<void(Value, Num)> body) override;

private:
  struct Piece {
    Value column; ///< the first
    Value exists; ///< null where it does in all threads
    Value kept;   ///< −∞ where there is no number
  };

  /// A piece as it is kept, so many columns behind the thread's first.
  Value load(int64_t turn);
  Value keep(Value elements);
  Value keepNothing();
  /// The elements of what is kept, and these as f32.
  Value expand(Value kept);
  Num widen(Value expanded);
  Num read(const Piece &piece);

  KernelBuilder &k;
  CudaThreads threads;
  KernelBuffer buffer;
  /// The thread's first column and its element, and what is left of the row
  /// from there, as i32. All else is a constant beside these.
  Value first, begin, left;
  Type type;      ///< of a piece's numbers
  Type elements;  ///< of a piece in memory
  Type registers; ///< of a piece that is kept
  SmallVector<Piece> pieces;
};
} // namespace

static Type getElementType(KernelBuffer buffer) {
  return cast<MemRefType>(buffer.getMemory().getType()).getElementType();
}

/// `then` where the condition holds, else `other`, of one type.
static Value choose(KernelBuilder &k, Value condition, Type type,
                    function_ref<Value()> then, function_ref<Value()> other) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto choice = scf::IfOp::create(b, type, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, then());
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, other());
  return choice.getResult(0);
}

/// The same i32, as another one to LLVM: results of the first are not kept.
static Value hideWord(KernelBuilder &k, Value word) {
  auto same = LLVM::InlineAsmOp::create(
      k.getBuilder(), k.i32(), ValueRange{word}, /*asm_string=*/"",
      /*constraints=*/"=r,0", /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      /*asm_dialect=*/nullptr, /*operand_attrs=*/nullptr);
  return same.getResult(0);
}

/// Else numbers are kept as f32 from pass to pass, in twice the registers.
static Value hideWords(KernelBuilder &k, Value words) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  for (int64_t i = 0; i < cast<VectorType>(words.getType()).getNumElements();
       ++i)
    words = vector::InsertOp::create(
        b, hideWord(k, vector::ExtractOp::create(b, words, i)), words, i);
  return words;
}

CudaHeldRow::CudaHeldRow(KernelBuilder &k, KernelBuffer buffer, Value begin,
                         int64_t cols, Value n)
    : k(k), threads(k), buffer(buffer) {
  int64_t lanes = std::gcd(cols, threads.getMostLanes());
  int64_t width = threads.getBlock().team * lanes;
  type = threads.getLanes(lanes);
  elements = k.withElement(type, getElementType(buffer));
  int64_t bits = lanes * getElementTypeOrSelf(elements).getIntOrFloatBitWidth();
  registers = elements != type && bits % kRegisterBits == 0
                  ? k.vectorOf(bits / kRegisterBits, k.i32())
                  : elements;
  first = k.mulIndex(threads.getRank(), k.index(lanes));
  this->begin = k.addIndex(begin, first);
  left = hideWord(k, arith::IndexCastOp::create(k.getBuilder(), k.i32(),
                                                k.subIndex(n, first)));
  for (int64_t turn = 0; turn < cols; turn += width) {
    Value column = k.addIndex(first, k.index(turn)), exists;
    if (turn + width <= cols) {
      pieces.push_back({column, exists, load(turn)});
      continue;
    }
    exists = k.less(first, k.index(cols - turn));
    pieces.push_back({column, exists,
                      choose(
                          k, exists, registers, [&] { return load(turn); },
                          [&] { return keepNothing(); })});
  }
}

/// Narrow elements are kept in pairs: each by itself would take a register.
Value CudaHeldRow::keep(Value elements) {
  if (registers == elements.getType())
    return elements;
  return vector::BitCastOp::create(k.getBuilder(), cast<VectorType>(registers),
                                   elements);
}

static Num getNothing(KernelBuilder &k, Type elements) {
  return k.constant(-std::numeric_limits<double>::infinity(), elements);
}

Value CudaHeldRow::keepNothing() { return keep(getNothing(k, elements).value); }

Value CudaHeldRow::load(int64_t turn) {
  auto getWord = [&](int64_t value) -> Value {
    ImplicitLocOpBuilder &b = k.getBuilder();
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  Value at = k.addIndex(begin, k.index(turn));
  auto vector = dyn_cast<VectorType>(elements);
  int64_t lanes = vector ? vector.getNumElements() : 1;
  Value loaded =
      vector ? buffer.loadElements(at, elements) : buffer.loadElement(at);
  // Most pieces have numbers alone.
  return choose(
      k, k.less(left, getWord(turn + lanes)), registers,
      [&] {
        Type integers = k.withElement(type, k.i32());
        Value isNumber = k.less(k.countLanes(k.index(turn), integers),
                                k.splat(left, integers));
        return keep(
            k.select(isNumber, k.num(loaded), getNothing(k, elements)).value);
      },
      [&] { return keep(loaded); });
}

Value CudaHeldRow::expand(Value kept) {
  if (registers == elements)
    return kept;
  return vector::BitCastOp::create(k.getBuilder(), cast<VectorType>(elements),
                                   kept);
}

Num CudaHeldRow::widen(Value expanded) {
  return elements == type ? k.num(expanded) : k.widen(k.num(expanded), k.f32());
}

Num CudaHeldRow::read(const Piece &piece) {
  bool isPacked = registers != elements;
  return widen(expand(isPacked ? hideWords(k, piece.kept) : piece.kept));
}

/// As elements in memory, of which a thread compares two at a time.
Num CudaHeldRow::maximum() {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value most = expand(pieces.front().kept);
  for (const Piece &piece : llvm::drop_begin(pieces))
    most = arith::MaxNumFOp::create(b, expand(piece.kept), most);
  Num result = k.reduce(vector::CombiningKind::MAXNUMF, widen(most));
  double lowest = std::numeric_limits<float>::lowest();
  result = k.max(result, k.constant(lowest, k.f32()));
  return threads.combine({result}, [&](Num a, Num c) { return k.max(a, c); })
      .front();
}

Num CudaHeldRow::sum(function_ref<Num(Num)> term) {
  Num sum = term(read(pieces.front()));
  for (const Piece &piece : llvm::drop_begin(pieces))
    sum = sum + term(read(piece));
  sum = k.reduce(vector::CombiningKind::ADD, sum);
  return threads.combine({sum}, [](Num a, Num c) { return a + c; }).front();
}

void CudaHeldRow::forEach(function_ref<void(Value, Num)> body) {
  for (const Piece &piece : pieces) {
    auto visit = [&] { body(piece.column, read(piece)); };
    if (piece.exists)
      k.when(piece.exists, visit);
    else
      visit();
  }
}

/// A power of two, as attention has it: a fused multiply-add and `ex2.approx`.
Num CudaSchedule::roughExp(KernelBuilder &k, Num x, Num most) const {
  Num exponent = x * std::numbers::log2e - most * std::numbers::log2e;
  return CudaThreads(k).exp2(exponent);
}

/// Far enough below the largest number: its reciprocal is a normal number.
Num CudaSchedule::narrowExp(KernelBuilder &k, Num x) const {
  Num exponent = x * std::numbers::log2e;
  Num most = k.constant(125, x.getType());
  return CudaThreads(k).exp2(k.num(
      arith::MinNumFOp::create(k.getBuilder(), exponent.value, most.value)));
}

/// `div.approx`: to 2 units of the last place.
Num CudaSchedule::narrowQuotient(KernelBuilder &k, Num a, Num c) const {
  return k.num(arith::DivFOp::create(k.getBuilder(), a.value, c.value,
                                     arith::FastMathFlags::afn));
}

int64_t CudaSchedule::getMostHeld(const IterationSpace &space) const {
  return kHeldRegisters * getCudaBlock(space).team * kRegisterBits / CHAR_BIT;
}

std::unique_ptr<HeldRow> CudaSchedule::holdRow(KernelBuilder &k,
                                               KernelBuffer buffer, Value begin,
                                               int64_t cols, Value n) const {
  int64_t bits = getElementType(buffer).getIntOrFloatBitWidth();
  if (cols * bits > getMostHeld(k.getSpace()) * CHAR_BIT)
    return KernelSchedule::holdRow(k, buffer, begin, cols, n);
  return std::make_unique<CudaHeldRow>(k, buffer, begin, cols, n);
}
