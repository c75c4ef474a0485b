//===- Tool.h - What every tool of the compiler does ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_TOOL_H
#define OPTIMUS_TOOL_TOOL_H

#include "optimus-support/Status.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::optimus {

/// Exit codes of all tools.
enum ExitCode {
  kDone = 0,
  kBadInput = 1, ///< the input, a flag, or what the machine lacks
  kOurFault = 2,
};

/// "optimus-compile 0.1.0 (LLVM 22.1.8)"
std::string describeVersion(llvm::StringRef tool);

/// All of main(): `body` between what every process of ours does first and
/// last. Returns its exit code, or another if not all that was printed has
/// reached standard output.
///
///   * What startProcess() says of streams, limits and signals; signals that
///     the caller ignores stay ignored.
///   * Out of memory, or what LLVM takes for fatal, ends the process with one
///     message and no stack dump.
int runTool(llvm::StringRef name, int argc, char **argv,
            llvm::function_ref<int()> body);

/// Prints "optimus-NAME: error: MESSAGE", after what was printed before.
/// Returns the exit code. A fault of ours is an internal error that asks for a
/// report.
int fail(const llvm::Twine &message, ExitCode code = kBadInput);
int fail(const optimus_support::Status &status);
int fail(llvm::Error error);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_TOOL_H
