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

/// What one call of a function moves: `exec.communication`, an entry for each
/// axis of the mesh with more than one rank, in its order.
///
/// `bytes` is summed over all ranks of the mesh, independent of any algorithm:
/// with S the bytes of the whole tensor and n the ranks of the axis, (n−1)·S
/// for a broadcast, reduce, all_gather or reduce_scatter and 2(n−1)·S for an
/// all_reduce, in each group of ranks that communicate. `messages` are the
/// collectives that one rank starts. A sum beyond 64 bits is an error.
FailureOr<ArrayAttr> describeCommunication(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_COMMUNICATION_H
