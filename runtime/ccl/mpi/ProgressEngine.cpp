//===- ProgressEngine.cpp - Moves what is in flight over MPI --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgressEngine.h"

#include <algorithm>
#include <sys/prctl.h>

namespace optrt {
using std::chrono::microseconds;

Status ProgressEngine::start() {
  return worker.start("the thread that moves data while a rank computes "
                      "(OPTIMUS_PROGRESS_THREAD=0 does without it)",
                      [this](auto &guard) { work(guard); });
}

ProgressEngine::~ProgressEngine() { inCharge.store(false); }

void ProgressEngine::add(InFlight &operation) {
  active.push_back(&operation);
  numActive.store(static_cast<int>(active.size()), std::memory_order_relaxed);
}

bool ProgressEngine::advanceAll() {
  std::size_t before = active.size();
  std::erase_if(active, [](InFlight *one) {
    Status status = one->operation.advance();
    if (status.ok() && !one->operation.isDone())
      return false;
    one->status = std::move(status);
    one->complete.store(true, std::memory_order_release);
    return true;
  });
  numActive.store(static_cast<int>(active.size()), std::memory_order_relaxed);
  return active.size() != before;
}

void ProgressEngine::waitFor(InFlight &operation) {
  if (operation.complete.load(std::memory_order_acquire))
    return;
  inCharge.store(false, std::memory_order_relaxed);
  Backoff looks = backoff();
  while (true) {
    bool moved;
    {
      std::lock_guard guard(mpi);
      moved = advanceAll();
    }
    if (moved)
      looks.moved();
    if (operation.complete.load(std::memory_order_acquire))
      return;
    if (!moved)
      looks.pause();
  }
}

Status ProgressEngine::waitForAll(std::span<MPI_Request> requests) {
  Backoff looks = backoff();
  while (true) {
    int areDone = 0;
    OPTIMUS_MPI_CHECK(MPI_Testall, static_cast<int>(requests.size()),
                      requests.data(), &areDone, MPI_STATUSES_IGNORE);
    if (areDone)
      break;
    looks.pause();
  }
  looks.moved();
  return okStatus();
}

void ProgressEngine::overlap() {
  if (numActive.load(std::memory_order_relaxed) == 0 || !worker.isRunning() ||
      inCharge.load(std::memory_order_relaxed))
    return;
  {
    std::lock_guard guard(worker.mutex);
    inCharge.store(true, std::memory_order_relaxed);
  }
  worker.wake.notify_one();
}

void ProgressEngine::work(std::unique_lock<std::mutex> &guard) {
  // Otherwise the kernel rounds short sleeps up by 50 us.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  while (true) {
    worker.wake.wait(guard,
                     [this] { return worker.isStopping || inCharge.load(); });
    if (worker.isStopping)
      return;
    guard.unlock();
    Backoff backoff(arrivals, /*looks=*/0, microseconds(200));
    while (inCharge.load(std::memory_order_relaxed)) {
      bool moved;
      {
        std::lock_guard guard(mpi);
        moved = advanceAll();
      }
      if (numActive.load(std::memory_order_relaxed) == 0) {
        inCharge.store(false, std::memory_order_relaxed);
        break;
      }
      if (moved)
        backoff.moved();
      backoff.pause();
    }
    guard.lock();
  }
}

} // namespace optrt
