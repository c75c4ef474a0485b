//===- CopyQueue.cpp - Copies beside computation --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CopyQueue.h"

using namespace optrt;

StatusOr<std::unique_ptr<CopyQueue>> CopyQueue::start(const std::string &name) {
  std::unique_ptr<CopyQueue> queue(new CopyQueue);
  OPTRT_RETURN_IF_ERROR(queue->worker.start(
      concat("the thread of the queue ", name),
      [queue = queue.get()](auto &lock) { queue->work(lock); }));
  return queue;
}

uint64_t CopyQueue::put(std::function<Status()> task) {
  uint64_t count;
  {
    std::lock_guard lock(worker.mutex);
    tasks.push_back(std::move(task));
    count = ++given;
  }
  worker.wake.notify_one();
  return count;
}

uint64_t CopyQueue::last() {
  std::lock_guard lock(worker.mutex);
  return given;
}

Status CopyQueue::await(uint64_t count) {
  std::unique_lock lock(worker.mutex);
  advanced.wait(lock, [&] { return done >= count; });
  return firstFailure;
}

Status CopyQueue::drain() {
  std::unique_lock lock(worker.mutex);
  advanced.wait(lock, [&] { return done == given; });
  return std::exchange(firstFailure, okStatus());
}

void CopyQueue::work(std::unique_lock<std::mutex> &lock) {
  while (true) {
    worker.wake.wait(lock, [&] { return worker.isStopping || !tasks.empty(); });
    if (tasks.empty())
      return;
    std::function<Status()> task = std::move(tasks.front());
    tasks.pop_front();
    if (firstFailure.ok()) {
      lock.unlock();
      Status status = task();
      lock.lock();
      if (firstFailure.ok())
        firstFailure = std::move(status);
    }
    ++done;
    advanced.notify_all();
  }
}
