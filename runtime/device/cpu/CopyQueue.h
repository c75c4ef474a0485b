//===- CopyQueue.h - Copies beside computation ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_COPYQUEUE_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_COPYQUEUE_H

#include "base/Thread.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace optrt {

/// A thread that runs tasks in order, beside the thread of their producer.
/// After a failure it does nothing more until drain() has told of it.
class CopyQueue {
public:
  /// Errors: Unavailable when the system gives no thread. What was put on it is
  /// done before it ends.
  static StatusOr<std::unique_ptr<CopyQueue>> start(const std::string &name);

  /// Returns how many tasks were put on it, this one included.
  uint64_t put(std::function<Status()> task);
  /// How many tasks were put on it.
  uint64_t last();
  /// Returns when so many of its tasks are done, with the first failure.
  Status await(uint64_t count);
  /// Returns when all are done, with the first failure, which is forgotten
  /// then.
  Status drain();

private:
  CopyQueue() = default;
  void work(std::unique_lock<std::mutex> &lock);

  std::condition_variable advanced;
  std::deque<std::function<Status()>> tasks;
  uint64_t given = 0, done = 0;
  Status firstFailure;
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_COPYQUEUE_H
