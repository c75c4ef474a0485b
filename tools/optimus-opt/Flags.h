//===- Flags.h - The flags of optimus-opt -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_OPT_FLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_OPT_FLAGS_H

#include "mlir/IR/DialectRegistry.h"

#include <optional>
#include <string>

namespace mlir::optimus {

/// Reads the command line. An exit code where there is nothing left to do.
std::optional<int> parseFlags(int argc, char **argv, DialectRegistry &registry);

/// What they say of files.
std::string getInputPath();
std::string getOutputPath();

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_OPT_FLAGS_H
