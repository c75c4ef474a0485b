//===- LiveRanges.cpp - When buffers of a device program are alive *- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include <map>

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

int64_t mlir::exec::computePeakBytes(func::FuncOp function) {
  std::map<int64_t, int64_t> changes;
  for (auto [base, interval] : computeLiveIntervals(function)) {
    if (!base.getDefiningOp<AllocOp>() ||
        getMemorySpace(base) != MemorySpace::Device)
      continue;
    changes[interval.first] += getPlacedBytes(base);
    changes[interval.last + 1] -= getPlacedBytes(base);
  }
  int64_t alive = 0, peak = 0;
  for (auto [position, change] : changes)
    peak = std::max(peak, alive += change);
  return peak;
}

llvm::MapVector<Value, LiveInterval>
mlir::exec::computeLiveIntervals(func::FuncOp function) {
  llvm::MapVector<Value, LiveInterval> intervals;
  auto touch = [&](Operation *command, int64_t position) {
    for (const Access &access : cast<CommandOpInterface>(command).getAccesses())
      for (Value base : getBases(access.operand->get())) {
        LiveInterval &interval =
            intervals.insert({base, {position, position}}).first->second;
        interval.last = position;
      }
  };
  int64_t position = 0;
  function.walk([&](CommandOpInterface command) {
    touch(command, position);
    if (Operation *awaited = command.getAwaitedCommand())
      touch(awaited, position);
    ++position;
  });
  return intervals;
}
