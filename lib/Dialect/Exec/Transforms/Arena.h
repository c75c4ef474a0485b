//===- Arena.h - A plan of a memory space -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_ARENA_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_ARENA_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/MemoryPlanning/MemoryPlanner.h"

namespace mlir::exec {

/// The planner's view of allocations, in their order, which have intervals.
SmallVector<optimus_planning::LiveRange>
getLiveRanges(ArrayRef<AllocOp> allocations,
              const llvm::MapVector<Value, LiveInterval> &intervals);

/// Plans an arena of ranges that pass checkRanges().
optimus_planning::Plan planArena(ArrayRef<optimus_planning::LiveRange> ranges);

/// The bytes of some arena of ranges: that of planArena() is at most as large,
/// where it is not within `enough`.
int64_t estimateArenaBytes(ArrayRef<optimus_planning::LiveRange> ranges,
                           int64_t enough);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_ARENA_H
