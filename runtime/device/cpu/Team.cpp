//===- Team.cpp - A rank's threads ----------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Team.h"

#include "base/Thread.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace optrt {

/// A thread's frames take some KiB; the rest is for libraries' own.
static constexpr size_t kLeastStack = 256 << 10;

int Team::most() {
  return omp_get_max_active_levels() < 1 ? 1 : omp_get_thread_limit();
}

/// What of the environment keeps a team small.
static std::string limitOf(int given) {
  if (omp_get_max_active_levels() < 1)
    return "OMP_MAX_ACTIVE_LEVELS is 0";
  if (omp_get_thread_limit() <= given)
    return concat("OMP_THREAD_LIMIT is ", omp_get_thread_limit());
  return "see the OMP_ variables of the environment";
}

/// Of the calling thread.
static size_t stackBytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return std::numeric_limits<size_t>::max();
  size_t bytes = 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

Status Team::start() const {
  // For whatever opens regions on this thread from now on.
  omp_set_dynamic(false);
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
  int given = 0;
  std::vector<size_t> stacks(threads, std::numeric_limits<size_t>::max());
#pragma omp parallel num_threads(threads)
  {
    // The stack of number 0, the calling thread, is not OpenMP's.
    if (const int number = omp_get_thread_num())
      stacks[number] = stackBytes();
    else
      given = omp_get_num_threads();
  }
  if (given < threads)
    return invalidArgument(concat("OpenMP gives ", given, " of the ", threads,
                                  " threads of a rank: ", limitOf(given),
                                  "; use --threads-per-rank ", given,
                                  ", or unset the variable"));
  if (size_t least = *std::ranges::min_element(stacks); least < kLeastStack)
    return invalidArgument(concat("OpenMP gives a thread ", least,
                                  " bytes of stack, expected ", kLeastStack,
                                  " or more: unset OMP_STACKSIZE and "
                                  "GOMP_STACKSIZE, or make them larger"));
  return okStatus();
}

} // namespace optrt
