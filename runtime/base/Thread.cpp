//===- Thread.cpp - Starting threads --------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Thread.h"

#include <new>
#include <sys/resource.h>
#include <system_error>

namespace optrt {

/// "ulimit -u 40", or nothing where there is no limit.
static std::string limitOf(__rlimit_resource resource, const char *flag,
                           rlim_t unit) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "";
  return concat("ulimit ", flag, " ", limit.rlim_cur / unit);
}

StatusOr<std::thread> startThread(const std::string &what,
                                  std::function<void()> body) {
  std::string why;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error &error) {
    why = error.code().message();
  } catch (const std::bad_alloc &) {
    why = "out of memory";
  }
  std::string limits = limitOf(RLIMIT_NPROC, "-u", 1);
  std::string memory = limitOf(RLIMIT_AS, "-v", 1024);
  limits += (limits.empty() || memory.empty() ? "" : ", ") + memory;
  return unavailable(concat(
      "cannot start ", what, ": ", why, "; use fewer ranks or ",
      "threads a rank, or allow more ",
      limits.empty() ? std::string("(cgroup's pids.max, kernel.threads-max)")
                     : concat("(limits: ", limits, ")")));
}

Status Worker::start(const std::string &what,
                     std::function<void(std::unique_lock<std::mutex> &)> body) {
  std::lock_guard guard(mutex);
  if (isRunning())
    return okStatus();
  auto work = [this, body = std::move(body)] {
    std::unique_lock lock(mutex);
    body(lock);
  };
  OPTRT_ASSIGN_OR_RETURN(thread, startThread(what, std::move(work)));
  return okStatus();
}

void Worker::stop() {
  if (!isRunning())
    return;
  {
    std::lock_guard guard(mutex);
    isStopping = true;
  }
  wake.notify_one();
  thread.join();
}

} // namespace optrt
