//===- RankTeam.cpp - The threads of a process's ranks --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/RankTeam.h"

#include "base/Thread.h"
#include "optimus-runtime/Exception.h"

namespace optrt {

StatusOr<std::unique_ptr<RankTeam>> RankTeam::create(int numRanks,
                                                     OnFailure onFailure) {
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
    firstFailure = status;
  }
  onFailure(status);
}

/// False for a failure.
bool RankTeam::attempt(const Body &body, int index) {
  Status status;
  try {
    status = body(index);
  } catch (...) {
    status = statusOfException();
  }
  bool ok = status.ok();
  note(std::move(status));
  return ok;
}

Status RankTeam::submit(Body newStart, Body newFinish) {
  if (busy)
    return internal("ranks were handed a task while another is under way");
  busy = true;
  start = std::move(newStart);
  finish = std::move(newFinish);
  if (threads.empty()) {
    firstFailure = okStatus();
    hasStarted = attempt(start, 0);
    return okStatus();
  }
  std::lock_guard lock(mutex);
  firstFailure = okStatus();
  running = static_cast<int>(threads.size());
  ++generation;
  wake.notify_all();
  return okStatus();
}

Status RankTeam::collect() {
  if (!busy)
    return internal("ranks were asked for the outcome of no task");
  busy = false;
  if (threads.empty()) {
    if (hasStarted)
      attempt(finish, 0);
    return firstFailure;
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return running == 0; });
  return firstFailure;
}

Status RankTeam::run(const Body &body) {
  OPTRT_RETURN_IF_ERROR(submit(body, [](int) { return okStatus(); }));
  return collect();
}

void RankTeam::work(int index) {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping)
        return;
      seen = generation;
    }
    if (attempt(start, index))
      attempt(finish, index);
    std::lock_guard lock(mutex);
    if (--running == 0)
      done.notify_one();
  }
}

} // namespace optrt
