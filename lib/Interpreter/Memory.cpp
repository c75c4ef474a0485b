//===- Memory.cpp - What interpreting a function takes ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/Interpreter.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/ResourceLimits.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::optimus;

/// Of the elements of a shape in f64; no more than 2^64 - 1.
static uint64_t getBytes(ArrayRef<int64_t> shape) {
  uint64_t bytes = sizeof(double);
  for (int64_t extent : shape)
    bytes = llvm::SaturatingMultiply<uint64_t>(bytes, extent);
  return bytes;
}

/// Of the parts of a value that all ranks hold.
static uint64_t getPartBytes(Type type, uint64_t numRanks) {
  // About what a tensor takes beside its elements.
  constexpr uint64_t kTensorBytes = 128;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  return llvm::SaturatingMultiply(
      llvm::SaturatingAdd(getBytes(tensor.getShape()), kTensorBytes), numRanks);
}

/// Of what parts are cut from or put together to.
static uint64_t getWholeBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool isKnown = tensor && tensor.hasStaticShape();
  return isKnown ? getBytes(getWholeShape(type)) : 0;
}

LogicalResult mlir::optimus::checkMemory(func::FuncOp function) {
  MeshOp mesh = getMesh(function);
  uint64_t numRanks = mesh ? mesh.getNumRanks() : 1;
  uint64_t all = 0, most = 0;
  Type largest;
  auto add = [&](Type type, uint64_t bytes) {
    all = llvm::SaturatingAdd(all, bytes);
    if (bytes > most) {
      most = bytes;
      largest = type;
    }
  };
  for (Type type : function.getArgumentTypes()) {
    add(type, getWholeBytes(type));
    add(type, getPartBytes(type, numRanks));
  }
  function.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      add(type, getPartBytes(type, numRanks));
  });
  for (Type type : function.getResultTypes())
    add(type, getWholeBytes(type));
  const auto &limits = optimus_support::resourceLimits();
  uint64_t machine = limits.memoryBytes;
  if (all <= machine)
    return success();
  auto inGiB = [](uint64_t bytes) {
    return llvm::formatv("{0:f1} GiB", double(bytes) / 0x1p30).str();
  };
  return function.emitError("@")
         << function.getName() << ": interpreting it takes "
         << (all == UINT64_MAX ? "2^64 bytes or more" : inGiB(all))
         << " for values in f64 on " << numRanks
         << (numRanks == 1 ? " rank" : " ranks") << ", the largest " << largest
         << ", and " << limits.memoryOwner() << " has " << inGiB(machine)
         << "; interpret a smaller program";
}
