//===- ProgressThread.cpp - Collectives that nobody waits for -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgressThread.h"

namespace optrt {

Status ProgressThread::start() {
  return worker.start("the thread that moves data while ranks compute",
                      [this](auto &lock) { work(lock); });
}

void ProgressThread::setRanks(int newRanks, int newThreads) {
  ranks.store(newRanks, std::memory_order_relaxed);
  threadsPerRank.store(newThreads, std::memory_order_relaxed);
}

bool ProgressThread::hasFreeCore() const {
  int running = ranks.load(std::memory_order_relaxed) -
                sleeping.load(std::memory_order_relaxed);
  return running * threadsPerRank.load(std::memory_order_relaxed) < cores;
}

void ProgressThread::perform(std::shared_ptr<LocalGroup> group,
                             uint64_t sequence) {
  if (!worker.isRunning())
    return;
  {
    std::lock_guard lock(worker.mutex);
    jobs.push_back({std::move(group), sequence});
    numJobs.store(static_cast<int>(jobs.size()), std::memory_order_relaxed);
  }
  if (hasFreeCore())
    worker.wake.notify_one();
}

void ProgressThread::rankSleeps() {
  sleeping.fetch_add(1, std::memory_order_relaxed);
  // A look without the lock may miss a job; the rank that waits for it helps.
  if (numJobs.load(std::memory_order_relaxed) != 0 && hasFreeCore())
    worker.wake.notify_one();
}

void ProgressThread::clear() {
  std::unique_lock lock(worker.mutex);
  jobs.clear();
  numJobs.store(0, std::memory_order_relaxed);
  idle.wait(lock, [this] { return !busy; });
}

void ProgressThread::work(std::unique_lock<std::mutex> &lock) {
  while (true) {
    worker.wake.wait(lock, [this] {
      return worker.isStopping || (!jobs.empty() && hasFreeCore());
    });
    if (worker.isStopping)
      return;
    Job job = jobs.front();
    busy = true;
    lock.unlock();
    bool left;
    do
      left = job.group->performOne(job.sequence);
    while (left && hasFreeCore());
    lock.lock();
    // clear() may have emptied the list meanwhile.
    if (!left && !jobs.empty() && jobs.front().group == job.group &&
        jobs.front().sequence == job.sequence) {
      jobs.pop_front();
      numJobs.store(static_cast<int>(jobs.size()), std::memory_order_relaxed);
    }
    busy = false;
    idle.notify_all();
  }
}

} // namespace optrt
