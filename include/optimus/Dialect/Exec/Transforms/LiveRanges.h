//===- LiveRanges.h - When buffers of a device program are alive *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_LIVERANGES_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_LIVERANGES_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::exec {

/// The commands [first, last] of a function, by position, that a buffer must
/// be alive at.
struct LiveInterval {
  int64_t first;
  int64_t last;
};

/// The live intervals of all buffers that commands of a function touch, bases
/// only: a view counts for its bases, and what a collective touches is alive
/// until its wait.
///
///   0: launch, write %a
///   1: collective_start, %a to %b
///   2: launch, write %c
///   3: wait of 1                       -> %a: [0, 3], %b: [1, 3], %c: [2, 2]
llvm::MapVector<Value, LiveInterval>
computeLiveIntervals(func::FuncOp function);

/// The bytes of a buffer.
int64_t getBufferBytes(Value buffer);

/// The alignment of a buffer, views excepted, in bytes.
int64_t getBufferAlignment(Value buffer);

/// The bytes that a buffer takes in an arena, where it begins at a multiple of
/// its alignment.
int64_t getPlacedBytes(Value buffer);

/// Checks that all allocations together have no more bytes than an arena may:
/// what of them is alive can be added up then.
LogicalResult verifyAllocations(func::FuncOp function);

/// The bytes alive at each command of a function, over the buffers accepted by
/// `counts`.
llvm::SmallVector<int64_t>
computeAliveBytes(func::FuncOp function,
                  llvm::function_ref<bool(Value)> counts);

/// The most bytes of allocations in the device's memory that are alive at once.
/// They must have passed verifyAllocations().
int64_t computePeakBytes(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_LIVERANGES_H
