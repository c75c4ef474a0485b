//===- TableEntry.cpp - Rows of tables by token -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TableEntry.h"

using namespace mlir;
using namespace mlir::optimus;

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
