//===- RankTeam.cpp - The threads of a process's ranks --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/RankTeam.h"

namespace optrt {

RankTeam::RankTeam(int numRanks, std::function<void()> onFailure)
    : onFailure(std::move(onFailure)) {
  if (numRanks > 1)
    for (int index = 0; index != numRanks; ++index)
      threads.emplace_back([this, index] { work(index); });
}

RankTeam::~RankTeam() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void RankTeam::note(Status status) {
  if (status.ok())
    return;
  {
    std::lock_guard lock(mutex);
    if (!firstFailure.ok())
      return;
    firstFailure = std::move(status);
  }
  onFailure();
}

Status RankTeam::run(const std::function<Status(int)> &body) {
  if (threads.empty()) {
    firstFailure = okStatus();
    note(body(0));
    return firstFailure;
  }
  std::unique_lock lock(mutex);
  firstFailure = okStatus();
  task = &body;
  running = static_cast<int>(threads.size());
  ++generation;
  wake.notify_all();
  done.wait(lock, [&] { return running == 0; });
  return firstFailure;
}

void RankTeam::work(int index) {
  uint64_t seen = 0;
  while (true) {
    const std::function<Status(int)> *mine;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping)
        return;
      seen = generation;
      mine = task;
    }
    note((*mine)(index));
    std::lock_guard lock(mutex);
    if (--running == 0)
      done.notify_one();
  }
}

} // namespace optrt
