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
  /// failure is reported: it must wake the ranks that wait for the failed one.
  using OnFailure = std::function<void(const Status &failure)>;
  /// Unavailable when the system does not give so many threads.
  static StatusOr<std::unique_ptr<RankTeam>> create(int numRanks,
                                                    OnFailure onFailure);
  ~RankTeam();
  RankTeam(const RankTeam &) = delete;
  RankTeam &operator=(const RankTeam &) = delete;

  /// What rank 0, 1, ... of this process does.
  using Body = std::function<Status(int)>;

  /// Hands all ranks a task and returns: each starts it, and then finishes what
  /// it has started. A single rank starts it before this returns, and finishes
  /// it in collect(). Internal while an earlier task is not collected.
  Status submit(Body start, Body finish);

  /// Waits until all ranks have finished. Returns the failure that came first:
  /// its consequences say only that another rank failed. What a body throws is
  /// a failure too. Internal where nothing was submitted.
  Status collect();

  /// Submits body(0) ... body(numRanks - 1) and collects.
  Status run(const Body &body);

  /// Whether something is submitted and not collected.
  bool isBusy() const { return busy; }

private:
  explicit RankTeam(OnFailure onFailure) : onFailure(std::move(onFailure)) {}
  void work(int index);
  bool attempt(const Body &body, int index);
  void note(Status status);

  const OnFailure onFailure;
  std::vector<std::thread> threads;

  std::mutex mutex;
  std::condition_variable wake, done;
  /// The task; of the caller's thread while `running` is 0.
  Body start, finish;
  bool busy = false;       ///< of the caller's thread
  bool hasStarted = false; ///< whether a single rank has, without a failure
  uint64_t generation = 0; ///< counts tasks
  int running = 0;
  bool stopping = false;
  Status firstFailure;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_RANKTEAM_H
