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

Status QueueWatch::start(ControlPlane &control) {
  return worker.start("the thread that watches queues of GPUs",
                      [this, &control](std::unique_lock<std::mutex> &lock) {
                        constexpr std::chrono::milliseconds kInterval(20);
                        while (!worker.wake.wait_for(lock, kInterval, [this] {
                          return worker.isStopping;
                        }))
                          look(control);
                      });
}

void QueueWatch::look(ControlPlane &control) {
  for (Watched *rank : ranks) {
    rank->look();
    const std::string overdue = rank->findOverdue();
    if (overdue.empty())
      continue;
    std::unique_lock lock(noting);
    const Status why = firstFailure.ok() ? unavailable(overdue)
                                         : firstFailure.withAdvice(overdue);
    lock.unlock();
    control.endJob(why);
  }
}

void QueueWatch::noteFailure(const Status &failure) {
  std::lock_guard lock(noting);
  if (firstFailure.ok())
    firstFailure = failure;
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

void QueueWatch::abort(const Status &reason) {
  noteFailure(reason);
  std::lock_guard lock(worker.mutex);
  isAborted = true;
  for (Watched *rank : ranks)
    rank->abort();
}

} // namespace optrt
