//===- CommandLine.h - Flags that LLVM parses -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For optimus-opt, the language server and the flags of MLIR in
// optimus-compile. Mistakes of a user are caught before LLVM parses, so that
// each is one message of ours.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_COMMANDLINE_H
#define OPTIMUS_TOOL_COMMANDLINE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/CommandLine.h"

#include <optional>
#include <string>

namespace mlir::optimus {

/// What `--help` says of a tool.
struct ToolUsage {
  llvm::StringRef name;       ///< "optimus-opt"
  llvm::StringRef summary;    ///< goes on after the name and the version
  llvm::StringRef input = {}; ///< "FILE.mlir"; empty if there is none
  /// Whether a flag is one of the tool's, and not one of LLVM's own.
  llvm::function_ref<bool(const llvm::cl::Option &)> isOurs;
  std::string more = {}; ///< after the flags
};

/// Gives flags their values. Returns an exit code where there is nothing left
/// to do: after --help, --version or a message about a mistake. Mistakes are
/// unknown flags (a suggestion is given), single-valued flags given twice,
/// missing values, and more than one input.
std::optional<int> parseCommandLine(int argc, const char *const *argv,
                                    const ToolUsage &usage);

/// The same, but leaves it to somebody else to give flags their values.
std::optional<int> checkCommandLine(int argc, const char *const *argv,
                                    const ToolUsage &usage);

/// The lines of `--help` on the most used flags of MLIR.
std::string listMlirFlags();

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_COMMANDLINE_H
