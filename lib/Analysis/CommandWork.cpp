//===- CommandWork.cpp - Commands as prices see them ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CommandWork.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_prices::CommandWork;
using optimus_prices::Touch;
using optimus_support::ElementType;

static uint64_t getNumber(Value buffer) {
  return reinterpret_cast<uintptr_t>(buffer.getAsOpaquePointer());
}

ElementType mlir::optimus::getFactorType(Type type) {
  if (type && type.isBF16())
    return ElementType::BF16;
  if (type && type.isF16())
    return ElementType::F16;
  return ElementType::F32;
}

static optimus_prices::Epilogue getEpilogue(exec::GemmOp gemm) {
  if (gemm.getEpilogue() == exec::Epilogue::None)
    return optimus_prices::Epilogue::None;
  // A dense residual is added by the product itself.
  const bool isFused = gemm.getEpilogue() == exec::Epilogue::Add &&
                       gemm.getLdc() == gemm.getN() &&
                       gemm.getLdExtra() == gemm.getN();
  return isFused ? optimus_prices::Epilogue::Fused
                 : optimus_prices::Epilogue::Pass;
}

CommandWork mlir::optimus::getCommandWork(exec::CommandOpInterface command,
                                          KernelWorks &kernels) {
  CommandWork result;
  if (command->getNumOperands() > 0)
    if (auto first = dyn_cast<MemRefType>(command->getOperand(0).getType()))
      result.factors = getFactorType(first.getElementType());
  if (auto launch = dyn_cast<exec::LaunchOp>(*command)) {
    result.isKernel = true;
    if (std::optional<Work> attention = kernels.getAttention(launch)) {
      result.work = *attention;
      return result;
    }
    result.kernel = kernels.get(launch);
    result.tasks =
        launch.getExtent().value_or(1) / launch.getGrain().value_or(1);
    return result;
  }
  if (auto working = dyn_cast<WorkOpInterface>(*command))
    result.work = working.getWork();
  if (auto gemm = dyn_cast<exec::GemmOp>(*command))
    result.epilogue = getEpilogue(gemm);
  return result;
}

SmallVector<Touch> mlir::optimus::getTouches(exec::CommandOpInterface command,
                                             bool byColumns) {
  SmallVector<Touch> touches;
  for (const exec::Access &access : command.getAccesses()) {
    Touch &one = touches.emplace_back();
    one.buffer = getNumber(access.operand->get());
    one.reads = access.reads;
    one.writes = access.writes;
    one.bytes = double(access.getTouchedBytes());
  }
  if (auto launch = dyn_cast<exec::LaunchOp>(*command); launch && byColumns)
    for (unsigned buffer : getBuffersByColumns(launch).set_bits())
      touches[buffer].byColumns = true;
  return touches;
}

TouchedBases mlir::optimus::getTouchedBases(exec::CommandOpInterface command,
                                            bool byColumns) {
  TouchedBases touched;
  llvm::append_range(touched.touches, getTouches(command, byColumns));
  for (const exec::Access &access : command.getAccesses()) {
    for (Value base : exec::getBases(access.operand->get()))
      touched.bases.push_back(getNumber(base));
    touched.ends.push_back(touched.bases.size());
  }
  return touched;
}
