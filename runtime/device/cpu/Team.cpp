//===- Team.cpp - A rank's threads ----------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Team.h"

#include "core/Thread.h"

#include <mutex>
#include <vector>

namespace optrt {

Status Team::start() const {
  if (threads == 1)
    return okStatus();
  // One rank after the other: what is tried out is then still there.
  static std::mutex oneAtATime;
  std::lock_guard lock(oneAtATime);
  Status status;
  {
    std::mutex gate;
    std::unique_lock closed(gate);
    std::vector<std::thread> trial;
    // The calling thread is the first.
    for (int i = 2; i <= threads && status.ok(); ++i) {
      StatusOr<std::thread> one =
          startThread(concat("thread ", i, " of the ", threads, " of a rank"),
                      [&gate] { std::lock_guard open(gate); });
      status = one.status();
      if (one.ok())
        trial.push_back(std::move(one).value());
    }
    closed.unlock();
    for (std::thread &one : trial)
      one.join();
  }
  OPTRT_RETURN_IF_ERROR(status);
#pragma omp parallel num_threads(threads)
  {}
  return okStatus();
}

} // namespace optrt
