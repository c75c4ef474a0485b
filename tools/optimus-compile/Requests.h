//===- Requests.h - Compilations without a start ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_REQUESTS_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_REQUESTS_H

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::optimus {

/// The only argument of a process that answers requests.
inline constexpr char kRequests[] = "--requests";

/// Reads requests from standard input until its end, a JSON object a line, and
/// answers each by a line on standard output:
///
///   {"arguments": ["-", "--report-json=-"], "input": "module {...", "nice":
///   19}
///   {"code": 0, "output": "{...", "errors": ""}
///
/// Each is a process of its own, forked from this one, which calls
/// compile(argc, argv): whatever it does or leaves, the next finds nothing of
/// it. `nice` is optional. The exit code, 1 after a line that is no request.
/// Nothing of this process may have started a thread.
int answerRequests(llvm::function_ref<int(int argc, char **argv)> compile);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_REQUESTS_H
