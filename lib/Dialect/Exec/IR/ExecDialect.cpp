//===- ExecDialect.cpp - The exec dialect -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::exec;

#include "optimus/Dialect/Exec/IR/ExecDialect.cpp.inc"
#include "optimus/Dialect/Exec/IR/ExecEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/Exec/IR/ExecAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "optimus/Dialect/Exec/IR/ExecTypes.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "optimus/Dialect/Exec/IR/ExecTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "optimus/Dialect/Exec/IR/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "optimus/Dialect/Exec/IR/ExecOps.cpp.inc"
      >();
}

SmallVector<IntegerAttr> ExecDialect::getNumbers(size_t count) {
  Builder builder(getContext());
  std::lock_guard guard(numbersLock);
  while (numbers.size() < count)
    numbers.push_back(builder.getI32IntegerAttr(numbers.size()));
  return SmallVector<IntegerAttr>(numbers.begin(), numbers.begin() + count);
}
