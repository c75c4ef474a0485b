//===- CommandLine.h - Flags of the compiler's tools ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM parses the flags. What a user may get wrong is checked before, so that
// every mistake is one message of ours.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_COMMANDLINE_H
#define OPTIMUS_TOOL_COMMANDLINE_H

#include "optimus-support/Status.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/CommandLine.h"

#include <optional>
#include <string>

namespace mlir::optimus {

/// What `--help` says of a tool.
struct ToolUsage {
  llvm::StringRef name;       ///< "optimus-compile"
  llvm::StringRef summary;    ///< goes on after the name and the version
  llvm::StringRef input = {}; ///< "PROGRAM.mlir"; empty if there is none
  bool needsInput = true;     ///< if there is one
  /// Whether a flag is one of the tool's, and not one of LLVM's own.
  llvm::function_ref<bool(const llvm::cl::Option &)> isOurs;
  /// Whether --help goes on with those of MLIR's flags that most people use.
  bool listsMlirFlags = false;
  std::string more = {}; ///< after the flags
};

/// Gives flags their values. Returns an exit code where there is nothing left
/// to do: after --help, --version or a message about a mistake. Mistakes are
/// flags that nobody knows (with what may have been meant), flags given twice
/// that have one value, values that are missing, and more than one input.
std::optional<int> parseCommandLine(int argc, char **argv,
                                    const ToolUsage &usage);

/// The same, but leaves it to somebody else to give flags their values.
std::optional<int> checkCommandLine(int argc, char **argv,
                                    const ToolUsage &usage);

/// "optimus-compile 0.1.0 (LLVM 22.1.8)"
std::string describeVersion(llvm::StringRef tool);

/// A line of `--help`, or several of at most 80 columns: a flag, and beside it
/// what it does.
std::string describeFlag(llvm::StringRef flag, llvm::StringRef text);

/// "--strategy: unknown strategy 'sumo'; known are serial, summa; did you mean
/// 'summa'?"
std::string unknownName(llvm::StringRef flag, llvm::StringRef what,
                        llvm::StringRef name,
                        llvm::ArrayRef<llvm::StringRef> known);

/// Reads a whole number in [least, most]; the error begins with the flag.
optimus_support::StatusOr<uint64_t> readCount(llvm::StringRef flag,
                                              llvm::StringRef text,
                                              uint64_t least,
                                              uint64_t most = INT64_MAX);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_COMMANDLINE_H
