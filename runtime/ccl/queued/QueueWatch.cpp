//===- QueueWatch.cpp - Looks at what GPUs do -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueWatch.h"

#include <chrono>

namespace optrt {

Status QueueWatch::start() {
  return worker.start("the thread that watches queues of GPUs",
                      [this](std::unique_lock<std::mutex> &lock) {
                        constexpr std::chrono::milliseconds kInterval(20);
                        while (!worker.wake.wait_for(lock, kInterval, [this] {
                          return worker.isStopping;
                        }))
                          for (Watched *rank : ranks)
                            rank->look();
                      });
}

void QueueWatch::add(Watched &rank) {
  std::lock_guard lock(worker.mutex);
  ranks.push_back(&rank);
  if (isAborted)
    rank.abort();
}

void QueueWatch::remove(Watched &rank) {
  std::lock_guard lock(worker.mutex);
  std::erase(ranks, &rank);
}

void QueueWatch::abort() {
  std::lock_guard lock(worker.mutex);
  isAborted = true;
  for (Watched *rank : ranks)
    rank->abort();
}

} // namespace optrt
