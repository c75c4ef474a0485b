//===- Flags.h - The command line of optimus-compile ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H

#include "optimus/Compiler/Settings.h"

#include <optional>

namespace mlir::optimus {

inline constexpr StringLiteral kTool = "optimus-compile";

/// Reads the command line, once passes are registered: our flags and those of
/// MLIR. An exit code where there is nothing to compile.
std::optional<int> parseCompileCommandLine(int argc, char **argv,
                                           CompileSettings &settings);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H
