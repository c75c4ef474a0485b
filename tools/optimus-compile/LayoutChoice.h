//===- LayoutChoice.h - Chooses a layout by prediction ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_LAYOUTCHOICE_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_LAYOUTCHOICE_H

#include "Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Chooses mesh, strategy and policy by predictions for all candidates, and
/// prints the table. Returns an exit code.
int chooseLayout(ModuleOp module, CompileOptions &options);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_LAYOUTCHOICE_H
