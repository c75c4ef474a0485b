//===- Against.h - Two programs on the same arguments -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_AGAINST_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_AGAINST_H

#include "optimus/Interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Rounds the arguments of a function to their types, so that two programs
/// begin with the same bits.
void roundToTypes(func::FuncOp function, MutableArrayRef<Tensor> arguments);

/// Compares the results of a function with those that the function of its name
/// in the program at `path` has for arguments of the same names. Its further
/// arguments are among `others`. Returns the exit code, after an error that
/// says where they differ.
int compareAgainst(const std::string &path, func::FuncOp function,
                   ArrayRef<Tensor> arguments, ArrayRef<NamedTensor> others,
                   ArrayRef<NamedTensor> results);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_AGAINST_H
