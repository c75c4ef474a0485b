//===- ProgressThread.h - Collectives that nobody waits for -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_PROGRESSTHREAD_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_PROGRESSTHREAD_H

#include "LocalGroup.h"
#include "base/Thread.h"
#include "optimus-support/ResourceLimits.h"

#include <deque>
#include <memory>

namespace optrt {

/// Performs collectives of thread ranks while the ranks compute. It takes a
/// core only where one is free: ranks that compute keep theirs, because a core
/// taken from a rank's team for a moment makes the whole team wait.
class ProgressThread {
public:
  /// Unavailable when the system gives no thread. Until then, and where it is
  /// never called, collectives move while somebody waits for them.
  Status start();

  /// How many ranks run, each with how many threads; with 0 threads, unknown,
  /// a core is always taken to be free.
  void setRanks(int ranks, int threadsPerRank);

  /// Leaves a ready collective to the thread.
  void perform(std::shared_ptr<LocalGroup> group, uint64_t sequence);

  /// A rank sleeps, or goes on.
  void rankSleeps();
  void rankWakes() { sleeping.fetch_sub(1, std::memory_order_relaxed); }

  /// Drops what is left and returns when the thread touches no buffer. Its
  /// groups must be aborted, or their ranks be idle.
  void clear();

private:
  struct Job {
    std::shared_ptr<LocalGroup> group;
    uint64_t sequence;
  };

  void work(std::unique_lock<std::mutex> &lock);
  bool hasFreeCore() const;

  std::condition_variable idle;
  std::deque<Job> jobs;
  std::atomic<int> numJobs{0};
  std::atomic<int> sleeping{0};
  std::atomic<int> ranks{0}, threadsPerRank{0};
  const int cores = optimus_support::resourceLimits().usableCores();
  bool busy = false;
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_PROGRESSTHREAD_H
