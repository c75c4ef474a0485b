//===- Gradients.h - Gradients against differences of the loss --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_GRADIENTS_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_GRADIENTS_H

#include "Flags.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Compares the gradients of a program with central differences of its loss,
/// and prints them. Returns the exit code.
int checkGradientsOf(ModuleOp module, const ArgumentSources &sources,
                     const Flags &flags);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_GRADIENTS_H
