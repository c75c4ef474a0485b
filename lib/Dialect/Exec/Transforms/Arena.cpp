//===- Arena.cpp - A plan of a memory space ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arena.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_planning::LiveRange;
using optimus_planning::Plan;

SmallVector<LiveRange>
exec::getLiveRanges(ArrayRef<AllocOp> allocations,
                    const llvm::MapVector<Value, LiveInterval> &intervals) {
  SmallVector<LiveRange> ranges;
  for (auto [index, op] : llvm::enumerate(allocations)) {
    AllocOp allocation = op;
    LiveInterval interval = intervals.lookup(allocation.getBuffer());
    ranges.push_back({static_cast<int64_t>(index), interval.first,
                      interval.last + 1, getBufferBytes(allocation.getBuffer()),
                      allocation.getBufferAlignment()});
  }
  return ranges;
}

Plan exec::planArena(ArrayRef<LiveRange> ranges) {
  optimus_planning::Options options;
  // A compilation waits about a second for each 5 MiB of arena, and at most as
  // long for what only the local search finds.
  options.bytesPerNode = 16;
  options.moveLimit = 40'000;
  // An exact search among a thousand buffers takes seconds and finds nothing.
  if (ranges.size() > 500)
    options.nodeLimit = 0;
  // Among few buffers a longer search takes a second, and a 50th is worth it.
  if (ranges.size() <= 2000) {
    options.far = 1.02;
    options.farMoveLimit = 200'000;
  }
  return optimus_planning::plan(ranges, options);
}

int64_t exec::estimateArenaBytes(ArrayRef<LiveRange> ranges, int64_t enough) {
  optimus_planning::Options options;
  options.capacity = enough;
  options.nodeLimit = 0;
  options.moveLimit = 0;
  // Repair as long as it costs next to nothing.
  options.bytesPerNode = std::numeric_limits<int64_t>::max();
  return optimus_planning::plan(ranges, options).arenaBytes;
}
