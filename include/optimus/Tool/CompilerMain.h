//===- CompilerMain.h - The compiler as a function --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_COMPILERMAIN_H
#define OPTIMUS_TOOL_COMPILERMAIN_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::optimus {

/// What `optimus-compile` does, with the dialects of `extensions` beside ours:
/// a compiler for operations of one's own is a program that calls this. Link
/// `OptimusCompilerMain`. Returns the exit code.
int compilerMain(int argc, char **argv,
                 const DialectRegistry &extensions = DialectRegistry());

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_COMPILERMAIN_H
