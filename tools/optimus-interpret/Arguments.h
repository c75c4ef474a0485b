//===- Arguments.h - What a function is called with -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_ARGUMENTS_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_ARGUMENTS_H

#include "optimus/Interpreter/Tensor.h"

#include "optimus-support/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::optimus {

/// Where arguments come from; the first that has one gives it.
struct ArgumentSources {
  /// NAME.npy for each argument; empty for none.
  std::string folder;
  /// Scalars by name.
  llvm::StringMap<double> scalars;
  /// Of the initial values of parameters, of draws, and of the random words of
  /// a program, whose step is 1.
  uint64_t seed = 1;
  /// If positive, whatever is still lacking is drawn: floats from the normal
  /// distribution, integers evenly from [0, vocabulary), targets from
  /// [-1, vocabulary).
  int64_t vocabulary = 0;
};

/// The file of an argument in the folder, if there is one; else empty.
std::string findArgumentFile(func::FuncOp function, unsigned argument,
                             const ArgumentSources &sources);

/// The whole tensors to call a function with.
optimus_support::StatusOr<SmallVector<Tensor>>
collectArguments(func::FuncOp function, const ArgumentSources &sources);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_ARGUMENTS_H
