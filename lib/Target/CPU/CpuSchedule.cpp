//===- CpuSchedule.cpp - Kernels of vector code -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/CpuSchedule.h"

#include "optimus/Kernels/KernelBuilder.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

/// Lanes of the vectors that loops are made of: one AVX-512 register, or what
/// the back-end splits into smaller ones.
static constexpr int64_t kLanes = 16;
/// Columns that one iteration of a column-parallel kernel covers.
static constexpr int64_t kColumns = 64;
/// Elements that one iteration of an elementwise kernel covers.
static constexpr int64_t kBlock = 4096;
/// Elements that make a task worth its hand-over, a few microseconds of work.
static constexpr int64_t kTask = 16384;

/// As many rows as make a task.
static int64_t getRowGrain(int64_t cols) {
  return std::max<int64_t>(1, kTask / cols);
}

namespace {
/// The parts of a row, of at most kBlock columns each, that are iterations.
struct RowParts {
  explicit RowParts(int64_t cols)
      : count(llvm::divideCeil(cols, kBlock)),
        width(llvm::divideCeil(cols, count)), last(cols - (count - 1) * width) {
  }
  int64_t count, width, last;
};
} // namespace

KernelExtent CpuSchedule::getExtent(const IterationSpace &space) const {
  int64_t rows = space.rows, cols = space.cols;
  switch (space.kind) {
  case IterationSpace::Elements: {
    if (rows == 1)
      return {int64_t(llvm::divideCeil(cols, kBlock)), kTask / kBlock};
    RowParts parts(cols);
    return {rows * parts.count, getRowGrain(parts.width)};
  }
  case IterationSpace::Rows:
  case IterationSpace::Items:
    return {rows, rows == 1 ? 1 : getRowGrain(cols)};
  case IterationSpace::Columns:
    return {int64_t(llvm::divideCeil(cols, kColumns)), 1};
  }
  llvm_unreachable("all kinds are covered");
}

//===----------------------------------------------------------------------===//
// Iterations
//===----------------------------------------------------------------------===//

void CpuSchedule::forRows(KernelBuilder &k, IndexFn body) const {
  k.loop(k.getBegin(), k.getEnd(), 1, body);
}

/// Blocks of kBlock elements of [0, n).
static void forBlocks(const CpuSchedule &schedule, KernelBuilder &k, int64_t n,
                      ElementsFn body) {
  int64_t rest = n % kBlock, whole = n / kBlock;
  schedule.forRows(k, [&](Value i) {
    Value base = k.mulIndex(i, k.index(kBlock));
    auto cover = [&](int64_t count) {
      k.lanes(count, [&](Value at, Type type) {
        Value element = k.addIndex(base, at);
        body(element, element, type);
      });
    };
    if (rest == 0)
      cover(kBlock);
    else if (whole == 0)
      cover(rest);
    else
      k.when(
          k.less(i, k.index(whole)), [&] { cover(kBlock); },
          [&] { cover(rest); });
  });
}

void CpuSchedule::forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                              ElementsFn body) const {
  if (rows == 1)
    return forBlocks(*this, k, cols, body);
  RowParts parts(cols);
  forRows(k, [&](Value i) {
    ImplicitLocOpBuilder &b = k.getBuilder();
    Value row = arith::DivUIOp::create(b, i, k.index(parts.count));
    Value part = arith::RemUIOp::create(b, i, k.index(parts.count));
    Value column = k.mulIndex(part, k.index(parts.width));
    Value base = k.addIndex(k.mulIndex(row, k.index(cols)), column);
    auto cover = [&](int64_t count) {
      k.lanes(count, [&](Value at, Type type) {
        body(k.addIndex(base, at), k.addIndex(column, at), type);
      });
    };
    if (parts.last == parts.width)
      cover(parts.width);
    else
      k.when(
          k.less(part, k.index(parts.count - 1)), [&] { cover(parts.width); },
          [&] { cover(parts.last); });
  });
}

void CpuSchedule::forColumns(KernelBuilder &k, int64_t cols,
                             LanesFn body) const {
  int64_t whole = cols / kColumns, rest = cols % kColumns;
  forRows(k, [&](Value iteration) {
    auto full = [&] {
      body(k.mulIndex(iteration, k.index(kColumns)),
           k.vectorOf(kColumns, k.f32()));
    };
    auto last = [&] {
      for (int64_t at = 0; at < rest; at += kLanes)
        body(k.index(whole * kColumns + at),
             k.vectorOf(std::min(kLanes, rest - at), k.f32()));
    };
    if (rest == 0)
      full();
    else if (whole == 0)
      last();
    else
      k.when(k.less(iteration, k.index(whole)), full, last);
  });
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

void CpuSchedule::lanes(KernelBuilder &k, int64_t n, LanesFn body) const {
  int64_t whole = n - n % kLanes;
  if (whole > 0)
    k.loop(k.index(0), k.index(whole), kLanes,
           [&](Value i) { body(i, k.vectorOf(kLanes, k.f32())); });
  if (whole < n)
    body(k.index(whole), k.vectorOf(n - whole, k.f32()));
}

/// The whole blocks of kLanes in [0, n), as loop bound.
static Value wholeLanes(KernelBuilder &k, Value n) {
  return k.mulIndex(arith::DivUIOp::create(k.getBuilder(), n, k.index(kLanes)),
                    k.index(kLanes));
}

void CpuSchedule::lanes(KernelBuilder &k, Value n, LanesFn body) const {
  Value whole = wholeLanes(k, n);
  k.loop(k.index(0), whole, kLanes,
         [&](Value i) { body(i, k.vectorOf(kLanes, k.f32())); });
  each(k, whole, n, [&](Value i) { body(i, k.f32()); });
}

void CpuSchedule::each(KernelBuilder &k, Value from, Value to,
                       IndexFn body) const {
  k.loop(from, to, 1, body);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Adds the lanes of each part to its total.
template <typename Parts>
static void addLanes(KernelBuilder &k, Terms &totals, const Parts &parts) {
  for (auto [total, part] : llvm::zip_equal(totals, parts))
    total = total + k.reduce(vector::CombiningKind::ADD, part);
}

static Terms toTerms(KernelBuilder &k, ValueRange values) {
  Terms terms;
  for (Value value : values)
    terms.push_back(k.num(value));
  return terms;
}

Terms CpuSchedule::sums(KernelBuilder &k, int64_t n, int64_t count,
                        TermsFn terms, bool wide) const {
  Type element = wide ? k.f64() : k.f32();
  Terms totals(count, k.constant(0, element));
  int64_t at = 0;
  for (int64_t width : {2 * kLanes, kLanes}) {
    int64_t end = n - (n - at) % width;
    if (end == at)
      continue;
    Type type = k.vectorOf(width, k.f32());
    SmallVector<Value> init(count,
                            k.constant(0, k.vectorOf(width, element)).value);
    SmallVector<Value> partial =
        k.loop(k.index(at), k.index(end), width, init,
               [&](Value i, ValueRange carried) {
                 return k.addTerms(carried, terms(i, type));
               });
    addLanes(k, totals, toTerms(k, partial));
    at = end;
  }
  if (at < n)
    addLanes(k, totals, terms(k.index(at), k.vectorOf(n - at, k.f32())));
  return totals;
}

Terms CpuSchedule::sums(KernelBuilder &k, Value n, int64_t count,
                        TermsFn terms) const {
  Value whole = wholeLanes(k, n);
  Terms totals(count, k.constant(0, k.f32()));
  auto accumulate = [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> init(count, k.constant(0, type).value);
    SmallVector<Value> partial =
        k.loop(from, to, step, init, [&](Value i, ValueRange carried) {
          return k.addTerms(carried, terms(i, type));
        });
    addLanes(k, totals, toTerms(k, partial));
  };
  accumulate(k.index(0), whole, kLanes, k.vectorOf(kLanes, k.f32()));
  accumulate(whole, n, 1, k.f32());
  return totals;
}

Num CpuSchedule::maximum(KernelBuilder &k, Value n,
                         function_ref<Num(Value, Type)> term) const {
  constexpr int64_t width = 4 * kLanes;
  double lowest = std::numeric_limits<float>::lowest();
  Value whole =
      k.mulIndex(arith::DivUIOp::create(k.getBuilder(), n, k.index(width)),
                 k.index(width));
  Num result = k.constant(lowest, k.f32());
  auto accumulate = [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> init{k.constant(lowest, type).value};
    Value partial =
        k.loop(from, to, step, init, [&](Value i, ValueRange carried) {
           return SmallVector<Value>{
               k.max(term(i, type), k.num(carried.front())).value};
         }).front();
    result =
        k.max(k.reduce(vector::CombiningKind::MAXNUMF, k.num(partial)), result);
  };
  accumulate(k.index(0), whole, width, k.vectorOf(width, k.f32()));
  accumulate(whole, n, 1, k.f32());
  return result;
}

Terms CpuSchedule::columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                              Type type, TermsFn terms) const {
  constexpr int64_t group = 256;
  SmallVector<Value> zeros(count, k.constant(0, type).value);
  SmallVector<Value> totals =
      k.loop(k.index(0), k.index(rows), group, zeros,
             [&](Value first, ValueRange sums) {
               Value end =
                   k.minIndex(k.addIndex(first, k.index(group)), k.index(rows));
               SmallVector<Value> part = k.loop(
                   first, end, 1, zeros, [&](Value row, ValueRange partial) {
                     return k.addTerms(partial, terms(row, type));
                   });
               return k.addTerms(sums, toTerms(k, part));
             });
  return toTerms(k, totals);
}
