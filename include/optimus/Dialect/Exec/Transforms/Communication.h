//===- Communication.h - What a device program communicates -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_COMMUNICATION_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_COMMUNICATION_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::exec {

/// What one call of a function moves over one mesh axis.
struct AxisCommunication {
  StringRef axis;
  /// Summed over all ranks of the mesh, independent of any algorithm: with S
  /// the bytes of the whole tensor and n the ranks of the axis, (n−1)·S for a
  /// broadcast, reduce, all_gather or reduce_scatter and 2(n−1)·S for an
  /// all_reduce, in each group of ranks that communicate.
  int64_t bytes = 0;
  /// Collectives that one rank starts.
  int64_t messages = 0;
};

/// One entry for each axis of the mesh with more than one rank, in its order.
SmallVector<AxisCommunication> countCommunication(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_COMMUNICATION_H
