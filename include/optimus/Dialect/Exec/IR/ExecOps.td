//===- ExecOps.td - The exec dialect: the device program ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_OPS
#define OPTIMUS_DIALECT_EXEC_OPS

include "optimus/Dialect/Exec/IR/ExecCommunicationOps.td"
include "optimus/Dialect/Exec/IR/ExecComputeOps.td"
include "optimus/Dialect/Exec/IR/ExecMemoryOps.td"

#endif // OPTIMUS_DIALECT_EXEC_OPS
