//===- Flags.h - The command line of optimus-compile ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H

#include "optimus/Pipelines/PhaseFlags.h"

#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// The flags as text; empty where they are not given.
struct CompileFlags {
  PhaseFlags phases;
  std::string input, output, reportJson;
  std::string ranks, memoryBudget;
  std::string gpuArchitectures, cubinFolder;
  std::string compileTo, compileFrom, dumpFolder;
  bool report = false;
  /// The names of those that are given, without dashes.
  llvm::StringSet<> given;
  /// All of it but for what LLVM reads.
  std::vector<std::string> arguments;

  bool isGiven(StringRef name) const { return given.contains(name); }
};

/// Reads the command line, once passes are registered: our flags and those of
/// MLIR. An exit code where there is nothing to compile.
std::optional<int> parseCompileCommandLine(int argc, char **argv,
                                           CompileFlags &flags);

/// The flags of a command line with more arguments.
optimus_support::StatusOr<CompileFlags>
addArguments(const CompileFlags &flags, ArrayRef<std::string> more);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_FLAGS_H
