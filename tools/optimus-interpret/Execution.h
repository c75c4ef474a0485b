//===- Execution.h - The function that the flags name -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_EXECUTION_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_EXECUTION_H

#include "Flags.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Executes the function that is asked for and compares, prints and writes its
/// results by the flags. Returns the exit code.
int execute(ModuleOp module, const ArgumentSources &sources,
            const Flags &flags);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_EXECUTION_H
