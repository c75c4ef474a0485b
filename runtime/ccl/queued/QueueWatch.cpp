//===- QueueWatch.cpp - Looks at what GPUs do -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueWatch.h"

#include "core/Thread.h"

#include <chrono>

namespace optrt {

Status QueueWatch::start() {
  std::lock_guard lock(mutex);
  if (thread.joinable())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(thread,
                         startThread("the thread that watches queues of GPUs",
                                     [this] { work(); }));
  return okStatus();
}

QueueWatch::~QueueWatch() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    isStopping = true;
  }
  wake.notify_one();
  thread.join();
}

void QueueWatch::work() {
  constexpr std::chrono::milliseconds kInterval(20);
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, kInterval, [this] { return isStopping; }))
    for (Watched *rank : ranks)
      rank->look();
}

void QueueWatch::add(Watched &rank) {
  std::lock_guard lock(mutex);
  ranks.push_back(&rank);
  if (isAborted)
    rank.abort();
}

void QueueWatch::remove(Watched &rank) {
  std::lock_guard lock(mutex);
  std::erase(ranks, &rank);
}

void QueueWatch::abort() {
  std::lock_guard lock(mutex);
  isAborted = true;
  for (Watched *rank : ranks)
    rank->abort();
}

} // namespace optrt
