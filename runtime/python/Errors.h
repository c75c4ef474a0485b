//===- Errors.h - Failures as Python's exceptions ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PYTHON_ERRORS_H
#define OPTIMUS_RUNTIME_PYTHON_ERRORS_H

#include "optimus-runtime/Status.h"

#include <sys/types.h>
#include <thread>
#include <utility>

namespace optimus_python {

/// Throws the exception called `name` in optimus.errors. With the interpreter's
/// lock.
[[noreturn]] void raise(const char *name, const std::string &message);
/// The same of a failure. With the interpreter's lock.
[[noreturn]] void raise(const optrt::Status &failure);

inline void check(const optrt::Status &status) {
  if (!status.ok())
    raise(status);
}

template <typename T>
T take(optrt::StatusOr<T> result) {
  check(result.status());
  return std::move(result).value();
}

/// The thread and the process of something's making, which alone may use it: an
/// OpenMP team and a rank's place among others belong to a thread, and threads
/// of ranks are not there after a fork.
class Owner {
public:
  Owner();
  /// Raises UsageError elsewhere; `what` is for messages, as "a Session".
  void check(const char *what) const;
  bool isOfThisProcess() const;

private:
  std::thread::id thread;
  pid_t process;
};

} // namespace optimus_python

#endif // OPTIMUS_RUNTIME_PYTHON_ERRORS_H
