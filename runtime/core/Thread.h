//===- Thread.h - Starting threads ------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_THREAD_H
#define OPTIMUS_RUNTIME_CORE_THREAD_H

#include "optimus-runtime/Status.h"

#include <functional>
#include <string>
#include <thread>

namespace optrt {

/// Starts a thread that runs `body`, which must not throw. Every thread of ours
/// is started here.
///
/// Errors: Unavailable when the system gives none, with the limits that stand;
/// `what` says which one was asked for: "thread 40 of the 64 that are ranks".
StatusOr<std::thread> startThread(const std::string &what,
                                  std::function<void()> body);

/// The cores that this process may use.
int usableCores();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_THREAD_H
