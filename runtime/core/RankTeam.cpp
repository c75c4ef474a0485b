//===- RankTeam.cpp - The threads of a process's ranks --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/RankTeam.h"

#include "core/Thread.h"
#include "optimus-runtime/Exception.h"

namespace optrt {

StatusOr<std::unique_ptr<RankTeam>>
RankTeam::create(int numRanks, std::function<void()> onFailure) {
  std::unique_ptr<RankTeam> team(new RankTeam(std::move(onFailure)));
  for (int index = 0; numRanks > 1 && index != numRanks; ++index) {
    // Those that have started wait for work, and end with the team.
    OPTRT_ASSIGN_OR_RETURN(
        std::thread thread,
        startThread(concat("thread ", index + 1, " of the ", numRanks,
                           " that are ranks"),
                    [team = team.get(), index] { team->work(index); }));
    team->threads.push_back(std::move(thread));
  }
  return team;
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

static Status attempt(const std::function<Status(int)> &body, int index) {
  try {
    return body(index);
  } catch (...) {
    return statusOfException();
  }
}

Status RankTeam::run(const std::function<Status(int)> &body) {
  if (threads.empty()) {
    firstFailure = okStatus();
    note(attempt(body, 0));
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
    note(attempt(*mine, index));
    std::lock_guard lock(mutex);
    if (--running == 0)
      done.notify_one();
  }
}

} // namespace optrt
