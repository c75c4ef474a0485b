//===- RankMemory.cpp - What a rank holds -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankMemory.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

/// Where an argument counts.
static int64_t RankMemory::*getCategory(func::FuncOp function,
                                        unsigned argument) {
  BufferAttr buffer = getArgumentBuffer(function, argument);
  if (!buffer)
    return &RankMemory::inputs;
  switch (buffer.getLifetime()) {
  case Lifetime::Parameter:
    return &RankMemory::parameters;
  case Lifetime::State:
    return &RankMemory::state;
  case Lifetime::Sequence:
  case Lifetime::Call:
    break;
  }
  return buffer.getOf() ? &RankMemory::gradients : &RankMemory::inputs;
}

RankMemory mlir::optimus::getRankMemory(func::FuncOp function) {
  RankMemory memory;
  // The first argument is the arena.
  for (unsigned i = 1; i < function.getNumArguments(); ++i)
    if (auto type = dyn_cast<MemRefType>(function.getArgument(i).getType()))
      memory.*getCategory(function, i) += getBytes(type);
  if (auto arena =
          function->getAttrOfType<IntegerAttr>(ExecDialect::kArenaBytes))
    memory.arena = arena.getInt();
  return memory;
}
