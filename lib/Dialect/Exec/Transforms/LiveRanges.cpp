//===- LiveRanges.cpp - When buffers of a device program are alive *- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include <numeric>

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;
using optimus_support::kMaxBytes;

int64_t mlir::exec::getBufferBytes(Value buffer) {
  return optimus::getBytes(buffer.getType());
}

int64_t mlir::exec::getBufferAlignment(Value buffer) {
  auto made = buffer.getDefiningOp<BufferOpInterface>();
  return made ? made.getBufferAlignment() : kLeastAlignment;
}

int64_t mlir::exec::getPlacedBytes(Value buffer) {
  return optimus_planning::paddedSize(
      {0, 0, 1, getBufferBytes(buffer), getBufferAlignment(buffer)});
}

LogicalResult mlir::exec::verifyAllocations(func::FuncOp function) {
  CheckedSize bytes = 0;
  function.walk([&](AllocOp allocation) {
    bytes = bytes + getPlacedBytes(allocation.getBuffer());
  });
  if (bytes.isAtMost(kMaxBytes))
    return success();
  return function.emitOpError("has buffers of ")
         << bytes.toString() << " bytes together; expected at most "
         << kMaxBytes;
}

SmallVector<int64_t>
mlir::exec::computeAliveBytes(func::FuncOp function,
                              llvm::function_ref<bool(Value)> counts) {
  SmallVector<int64_t> alive(getCommands(function).size() + 1);
  for (auto [base, interval] : computeLiveIntervals(function)) {
    if (!counts(base))
      continue;
    alive[interval.first] += getPlacedBytes(base);
    alive[interval.last + 1] -= getPlacedBytes(base);
  }
  alive.pop_back();
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  return alive;
}

int64_t mlir::exec::computePeakBytes(func::FuncOp function) {
  int64_t peak = 0;
  for (int64_t bytes : computeAliveBytes(function, [](Value base) {
         return base.getDefiningOp<AllocOp>() &&
                getMemorySpace(base) == MemorySpace::Device;
       }))
    peak = std::max(peak, bytes);
  return peak;
}

llvm::MapVector<Value, LiveInterval>
mlir::exec::computeLiveIntervals(func::FuncOp function) {
  llvm::MapVector<Value, LiveInterval> intervals;
  auto touch = [&](CommandOpInterface command, int64_t position) {
    for (const Access &access : command.getAccesses())
      for (Value base : getBases(access.operand->get())) {
        LiveInterval &interval =
            intervals.insert({base, {position, position}}).first->second;
        interval.last =
            std::max(interval.last, position + command.getCommandLag());
      }
  };
  int64_t position = 0;
  for (CommandOpInterface command : getCommands(function)) {
    touch(command, position);
    if (Operation *awaited = command.getAwaitedCommand())
      touch(cast<CommandOpInterface>(awaited), position);
    ++position;
  }
  // Nothing comes after the last command.
  for (auto &[base, interval] : intervals)
    interval.last = std::min(interval.last, position - 1);
  return intervals;
}
