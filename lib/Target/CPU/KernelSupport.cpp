//===- KernelSupport.cpp - What several kernels are made of ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

void mlir::optimus::forBlocks(KernelBuilder &k, int64_t n,
                              function_ref<void(Value, Type)> body) {
  int64_t rest = n % kBlock, whole = n / kBlock;
  k.iterate([&](Value i) {
    Value base = k.mulIndex(i, k.index(kBlock));
    auto cover = [&](int64_t count) {
      k.lanes(count,
              [&](Value at, Type type) { body(k.addIndex(base, at), type); });
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

KernelBuilder::Terms mlir::optimus::columnSums(KernelBuilder &k, int64_t rows,
                                               int64_t count, Type type,
                                               KernelBuilder::TermsFn terms) {
  constexpr int64_t group = 256;
  SmallVector<Value> zeros(count, k.constant(0, type).value);
  auto addTo = [&](ValueRange sums, const KernelBuilder::Terms &addends) {
    SmallVector<Value> next;
    for (auto [sum, addend] : llvm::zip_equal(sums, addends))
      next.push_back((k.num(sum) + addend).value);
    return next;
  };
  SmallVector<Value> totals =
      k.loop(k.index(0), k.index(rows), group, zeros,
             [&](Value first, ValueRange sums) {
               Value end =
                   k.minIndex(k.addIndex(first, k.index(group)), k.index(rows));
               SmallVector<Value> part = k.loop(
                   first, end, 1, zeros, [&](Value row, ValueRange partial) {
                     return addTo(partial, terms(row, type));
                   });
               KernelBuilder::Terms addends;
               for (Value value : part)
                 addends.push_back(k.num(value));
               return addTo(sums, addends);
             });
  KernelBuilder::Terms result;
  for (Value total : totals)
    result.push_back(k.num(total));
  return result;
}

void mlir::optimus::whenInTable(KernelBuilder &k, int64_t buffer,
                                Value position, Value first, int64_t rows,
                                function_ref<void(Value)> inside,
                                function_ref<void()> outside) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value entry = arith::IndexCastOp::create(b, b.getIndexType(),
                                           k.loadElement(buffer, position));
  Value row = k.subIndex(entry, first);
  // Unsigned, so that a negative row is out of bounds too; a negative entry
  // never counts, wherever the table begins.
  Value within =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, k.index(rows));
  Value valid =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sge, entry, k.index(0));
  k.when(
      k.both(within, valid), [&] { inside(row); }, outside);
}
