//===- RankTeam.h - The threads of a process's ranks ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_RANKTEAM_H
#define OPTIMUS_RUNTIME_RANKTEAM_H

#include "optimus-runtime/Status.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace optrt {

/// One thread for every rank of this process, kept for the life of the team:
/// an OpenMP team belongs to the thread that made it. A single rank runs on
/// the caller's thread.
class RankTeam {
public:
  /// `onFailure` is called once, by the first rank that fails, before its
  /// failure is reported: it must wake ranks that wait for that one.
  /// Unavailable when the system does not give so many threads.
  static StatusOr<std::unique_ptr<RankTeam>>
  create(int numRanks, std::function<void()> onFailure);
  ~RankTeam();
  RankTeam(const RankTeam &) = delete;
  RankTeam &operator=(const RankTeam &) = delete;

  /// Runs body(0) ... body(numRanks - 1) at the same time and waits for all.
  /// Returns the failure that came first: those that follow from it say only
  /// that another rank failed. What a body throws is a failure too.
  Status run(const std::function<Status(int)> &body);

private:
  explicit RankTeam(std::function<void()> onFailure)
      : onFailure(std::move(onFailure)) {}
  void work(int index);
  void note(Status status);

  const std::function<void()> onFailure;
  std::vector<std::thread> threads;

  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<Status(int)> *task = nullptr;
  uint64_t generation = 0; ///< counts tasks
  int running = 0;
  bool stopping = false;
  Status firstFailure;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_RANKTEAM_H
