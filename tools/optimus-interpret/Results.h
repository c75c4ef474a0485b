//===- Results.h - Results of a function, printed and written ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_RESULTS_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_RESULTS_H

#include "Flags.h"

#include "optimus/Interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Says before any work whether results can be written, each to a file of its
/// own that is no input.
optimus_support::Status checkFiles(func::FuncOp function,
                                   const ArgumentSources &sources,
                                   const Flags &flags);

/// Prints and writes the results as the flags ask.
optimus_support::Status report(ArrayRef<NamedTensor> results,
                               const Flags &flags);

/// Compares results with those of another function. Returns the exit code.
int compare(func::FuncOp function, func::FuncOp reference,
            ArrayRef<Tensor> arguments, ArrayRef<NamedTensor> results);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_RESULTS_H
