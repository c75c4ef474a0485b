//===- OwnBuffers.h - Buffers that outlive a call ------------ -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OWNBUFFERS_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OWNBUFFERS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::exec {

/// Appends a buffer of the manifest to a function's arguments: a rank's own
/// elements, which no other rank has. `access` is as `exec.access` has it.
BlockArgument appendOwnBuffer(func::FuncOp to, MemRefType type,
                              optimus::BufferAttr buffer, StringRef access,
                              Location location);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OWNBUFFERS_H
