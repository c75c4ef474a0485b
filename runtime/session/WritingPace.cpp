//===- WritingPace.cpp - When threads write beside steps ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WritingPace.h"

#include <time.h>

using namespace optrt;

/// The time that the calling thread has had of a core.
static WritingPace::Duration workOfThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

WritingPace::Turn::~Turn() {
  std::lock_guard guard(pace.mutex);
  --pace.numActive;
  pace.changed.notify_all();
}

void WritingPace::Turn::wait() {
  if (workOfThread() < end)
    return;
  std::unique_lock lock(pace.mutex);
  if (!pace.isUnlimited && pace.given == seen) {
    ++pace.numWaiting;
    pace.changed.notify_all();
    pace.changed.wait(lock,
                      [&] { return pace.isUnlimited || pace.given != seen; });
  }
  seen = pace.given;
  end = workOfThread() + pace.time;
}

void WritingPace::give(Duration more) {
  std::unique_lock lock(mutex);
  if (isUnlimited)
    return;
  ++given;
  time = more;
  numWaiting = 0;
  changed.notify_all();
  changed.wait_for(lock, more, [&] { return numWaiting == numActive; });
}

void WritingPace::hurry() {
  std::lock_guard guard(mutex);
  isUnlimited = true;
  changed.notify_all();
}
