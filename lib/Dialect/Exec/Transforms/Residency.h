//===- Residency.h - Intervals in which buffers are used --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_RESIDENCY_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_RESIDENCY_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::exec {

/// Commands [first, last], by position, between which a buffer is in use.
struct ResidentInterval {
  int64_t first, last;
  /// Whether it needs the buffer's former contents, and whether it changes
  /// them.
  bool reads, writes;
};

/// The resident intervals of the buffers in the device's memory that `counts`
/// takes, in order; what a collective touches is in use until its wait. Two
/// uses belong to one interval where `belongTogether` says so of the positions
/// of the earlier and the later one.
///
///   uses of %x at commands 2 (written), 3, 40 (read), where 3 and 40 do not
///   belong together -> [2, 3] writes, [40, 40] reads
llvm::MapVector<Value, SmallVector<ResidentInterval>> collectResidentIntervals(
    ArrayRef<CommandOpInterface> commands,
    llvm::function_ref<bool(Value)> counts,
    llvm::function_ref<bool(Value, int64_t, int64_t)> belongTogether);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_RESIDENCY_H
