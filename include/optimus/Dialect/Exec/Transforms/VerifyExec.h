//===- VerifyExec.h - Checks what no single command can check ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_VERIFYEXEC_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_VERIFYEXEC_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::exec {

/// Checks a function of commands, and says on it what is wrong: V1 to V9 of
/// --optimus-verify-exec.
LogicalResult verifyFunction(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_VERIFYEXEC_H
