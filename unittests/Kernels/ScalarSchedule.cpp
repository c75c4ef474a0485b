//===- ScalarSchedule.cpp - Kernels without vectors -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScalarSchedule.h"

#include "optimus/Kernels/KernelBuilder.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

KernelExtent ScalarSchedule::getExtent(const IterationSpace &space) const {
  switch (space.kind) {
  case IterationSpace::Elements:
    return {space.rows * space.cols, 1};
  case IterationSpace::Rows:
  case IterationSpace::Items:
    return {space.rows, 1};
  case IterationSpace::Columns:
    return {space.cols, 1};
  }
  llvm_unreachable("all kinds are covered");
}

void ScalarSchedule::forElements(KernelBuilder &k, int64_t, int64_t cols,
                                 ElementsFn body) const {
  forRows(k, [&](Value element) {
    Value column =
        arith::RemUIOp::create(k.getBuilder(), element, k.index(cols));
    body(element, column, k.f32());
  });
}

void ScalarSchedule::forRows(KernelBuilder &k, IndexFn body) const {
  k.loop(k.getBegin(), k.getEnd(), 1, body);
}

void ScalarSchedule::forColumns(KernelBuilder &k, int64_t, LanesFn body) const {
  forRows(k, [&](Value column) { body(column, k.f32()); });
}

void ScalarSchedule::lanes(KernelBuilder &k, int64_t n, LanesFn body) const {
  lanes(k, k.index(n), body);
}

void ScalarSchedule::lanes(KernelBuilder &k, Value n, LanesFn body) const {
  each(k, k.index(0), n, [&](Value at) { body(at, k.f32()); });
}

void ScalarSchedule::each(KernelBuilder &k, Value from, Value to,
                          IndexFn body) const {
  k.loop(from, to, 1, body);
}

/// Terms one after the other.
static Terms addUp(KernelBuilder &k, Value n, int64_t count, TermsFn terms,
                   Type element) {
  SmallVector<Value> zeros(count, k.constant(0, element).value);
  SmallVector<Value> totals =
      k.loop(k.index(0), n, 1, zeros, [&](Value at, ValueRange sums) {
        return k.addTerms(sums, terms(at, k.f32()));
      });
  Terms result;
  for (Value total : totals)
    result.push_back(k.num(total));
  return result;
}

Terms ScalarSchedule::sums(KernelBuilder &k, int64_t n, int64_t count,
                           TermsFn terms, bool wide) const {
  return addUp(k, k.index(n), count, terms, wide ? k.f64() : k.f32());
}

Terms ScalarSchedule::sums(KernelBuilder &k, Value n, int64_t count,
                           TermsFn terms) const {
  return addUp(k, n, count, terms, k.f32());
}

Num ScalarSchedule::maximum(KernelBuilder &k, Value n,
                            function_ref<Num(Value, Type)> term) const {
  SmallVector<Value> lowest{
      k.constant(std::numeric_limits<float>::lowest(), k.f32()).value};
  Value most =
      k.loop(k.index(0), n, 1, lowest, [&](Value at, ValueRange carried) {
         return SmallVector<Value>{
             k.max(term(at, k.f32()), k.num(carried.front())).value};
       }).front();
  return k.num(most);
}

Terms ScalarSchedule::columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                                 Type, TermsFn terms) const {
  return addUp(k, k.index(rows), count, terms, k.f32());
}
