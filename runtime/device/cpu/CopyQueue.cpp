//===- CopyQueue.cpp - Copies beside computation --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CopyQueue.h"

#include "core/Thread.h"

using namespace optrt;

StatusOr<std::unique_ptr<CopyQueue>> CopyQueue::start(const std::string &name) {
  std::unique_ptr<CopyQueue> queue(new CopyQueue);
  OPTRT_ASSIGN_OR_RETURN(queue->thread,
                         startThread(concat("the thread of the queue ", name),
                                     [queue = queue.get()] { queue->work(); }));
  return queue;
}

CopyQueue::~CopyQueue() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_one();
  thread.join();
}

uint64_t CopyQueue::put(std::function<Status()> task) {
  uint64_t count;
  {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    count = ++given;
  }
  wake.notify_one();
  return count;
}

uint64_t CopyQueue::last() {
  std::lock_guard lock(mutex);
  return given;
}

Status CopyQueue::await(uint64_t count) {
  std::unique_lock lock(mutex);
  advanced.wait(lock, [&] { return done >= count; });
  return firstFailure;
}

Status CopyQueue::drain() {
  std::unique_lock lock(mutex);
  advanced.wait(lock, [&] { return done == given; });
  return std::exchange(firstFailure, okStatus());
}

void CopyQueue::work() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || !tasks.empty(); });
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
