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

#include "optimus-support/DeviceScratch.h"

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

/// For the commands of a function, with one thread.
static int64_t getScratch(func::FuncOp function) {
  using namespace optimus_support;
  DeviceScratch products, attention;
  auto include = [&](auto op, bool isGradient) {
    auto bytes = attentionScratchBytes(op.getSeq(), op.getHeadDim(), isGradient);
    // Operands are as large, and were verified.
    attention.include({bytes.get().value_or(0), 0});
  };
  function.walk([&](Operation *op) {
    if (auto gemm = dyn_cast<exec::GemmOp>(op))
      products.include(productScratch(
          {int64_t(gemm.getM()), int64_t(gemm.getN()), int64_t(gemm.getK()),
           gemm.getTransA(), gemm.getBias() && gemm.getAccumulate()}));
    else if (auto forward = dyn_cast<exec::AttentionOp>(op))
      include(forward, /*isGradient=*/false);
    else if (auto backward = dyn_cast<exec::AttentionGradOp>(op))
      include(backward, /*isGradient=*/true);
  });
  return products.bytes(1) + attention.bytes(1);
}

RankMemory mlir::optimus::getRankMemory(func::FuncOp function) {
  RankMemory memory;
  // The first argument is the arena, those of other spaces follow.
  for (unsigned i = 1; i < function.getNumArguments(); ++i) {
    BlockArgument argument = function.getArgument(i);
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type)
      continue;
    bool isArena = type.getElementType().isInteger(8);
    int64_t &bytes =
        exec::getMemorySpace(argument) == exec::MemorySpace::File
            ? memory.offloaded
            : memory.*(isArena ? &RankMemory::arena : getCategory(function, i));
    bytes += getBytes(type);
  }
  if (auto arena =
          function->getAttrOfType<IntegerAttr>(ExecDialect::kArenaBytes))
    memory.arena += arena.getInt();
  memory.scratch = getScratch(function);
  return memory;
}
