//===- TableEntry.cpp - Rows of tables by token -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TableEntry.h"

#include "optimus-support/CachePages.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::kPageTokens;

void mlir::optimus::whenInTable(KernelBuilder &k, KernelBuffer entries,
                                Value position, Value first, int64_t rows,
                                function_ref<void(Value)> inside,
                                function_ref<void()> outside) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value entry = arith::IndexCastOp::create(b, b.getIndexType(),
                                           entries.loadElement(position));
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

Value PageTable::findPage(KernelBuilder &k, Value sequence,
                          Value position) const {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value number = arith::DivUIOp::create(b, position, k.index(kPageTokens));
  Value entry = entries.loadElement(
      k.addIndex(k.mulIndex(sequence, k.index(pages)), number));
  return k.addIndex(k.mulIndex(sequence, k.index(ofEach)),
                    arith::IndexCastOp::create(b, b.getIndexType(), entry));
}

Value PageTable::getRow(KernelBuilder &k, Value page, Value position) const {
  return k.addIndex(
      k.mulIndex(page, k.index(kPageTokens)),
      arith::RemUIOp::create(k.getBuilder(), position, k.index(kPageTokens)));
}

void PageTable::whenThere(KernelBuilder &k, Value sequence, Value position,
                          function_ref<void(Value)> inside,
                          function_ref<void()> outside) const {
  Value page = findPage(k, sequence, position);
  // Unsigned: what is negative is far above.
  Value isThere =
      arith::CmpIOp::create(k.getBuilder(), arith::CmpIPredicate::ult, page,
                            k.index(sequences * ofEach));
  k.when(
      isThere, [&] { inside(getRow(k, page, position)); }, outside);
}
