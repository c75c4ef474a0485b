//===- Thread.h - Starting threads ------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_THREAD_H
#define OPTIMUS_RUNTIME_BASE_THREAD_H

#include "optimus-runtime/Status.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace optrt {

/// Starts a thread for `body`, which must not throw. Every thread of ours is
/// started here.
///
/// Errors: Unavailable when the system gives none, with the limits that stand;
/// `what` says which one was asked for: "thread 40 of the 64 that are ranks".
StatusOr<std::thread> startThread(const std::string &what,
                                  std::function<void()> body);

/// A thread that works until its owner ends. It is the owner's last member, as
/// it uses the others, which `mutex` guards.
class Worker {
public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /// Calls `body` with the mutex locked, unless the thread is there already.
  /// It sleeps on `wake`, and returns where `isStopping` says so. Errors are
  /// those of startThread().
  Status start(const std::string &what,
               std::function<void(std::unique_lock<std::mutex> &)> body);
  bool isRunning() const { return thread.joinable(); }
  /// Wakes the thread and waits for its end.
  void stop();

  std::mutex mutex;
  std::condition_variable wake;
  bool isStopping = false;

private:
  std::thread thread;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_BASE_THREAD_H
