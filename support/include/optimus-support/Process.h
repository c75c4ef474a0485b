//===- Process.h - What every tool does first and last ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROCESS_H
#define OPTIMUS_SUPPORT_PROCESS_H

#include "optimus-support/Status.h"

#include <functional>

namespace optimus_support {

/// The first thing in every main(), after other libraries have set their signal
/// handlers:
///
///   * A standard stream closed by the caller stays closed for its readers and
///     writers. No file opened later gets its number: a message would end up in
///     a checkpoint.
///   * A limit on file sizes (ulimit -f) is an error of the write that passes
///     it, rather than the end of the process.
///   * Temporary files disappear when a signal ends the process.
void startProcess();

/// All of a main() but what comes first and last: calls `body` on a stack of at
/// least 8 MiB, as the system's default is, whatever the caller's limit
/// (`ulimit -s`), and returns its result. Threads that are started from then on
/// have such stacks, too. Unavailable where the machine refuses one.
StatusOr<int> runOnLargeStack(const std::function<int()> &body);

/// The last thing in every main(): whether all that was printed with stdio or
/// iostreams has reached standard output. Unavailable if not.
Status finishStandardOutput();

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PROCESS_H
