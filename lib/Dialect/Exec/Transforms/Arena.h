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

/// How hard a plan is worked on: a quick one is never smaller.
enum class PlanEffort { Quick, Full };

/// Plans an arena of ranges that pass checkRanges().
optimus_planning::Plan planArena(ArrayRef<optimus_planning::LiveRange> ranges,
                                 PlanEffort effort);

/// The bytes of the arena of a function's allocations in the device's memory,
/// in the order of commands as it is; a full plan takes no more. They must have
/// passed verifyAllocations().
int64_t computeQuickArenaBytes(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_ARENA_H
