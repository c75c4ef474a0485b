//===- Functions.h - The functions of a program by name ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FUNCTIONS_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FUNCTIONS_H

#include "optimus-support/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mlir::optimus {

/// The first of some functions that the module has.
func::FuncOp findFunction(ModuleOp module, ArrayRef<StringRef> names);

/// For messages: "@loss, @grad".
std::string listFunctions(ModuleOp module);

/// A function that a flag names.
optimus_support::StatusOr<func::FuncOp>
getFunction(ModuleOp module, StringRef flag, StringRef name);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FUNCTIONS_H
