//===- ProcessEnd.h - How the process ends where it cannot go on ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_PROCESSEND_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_PROCESSEND_H

#include "optimus-runtime/Status.h"

namespace optimus_run {

/// Early in main(): an exception at the end of a thread ends the process with
/// its message, and what such an end takes is there before memory runs out.
/// printFailure() and failJob() in Commands.h are the ordinary ends.
void prepareForFailures();

/// What a process does before it ends at once: WatchOptions::onStall.
void reportEnd(const optrt::Status &status, bool speaks);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_PROCESSEND_H
