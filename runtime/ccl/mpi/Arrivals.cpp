//===- Arrivals.cpp - Sleeps until something may have arrived -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arrivals.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

namespace optrt {

using std::chrono::microseconds;

/// The first sleep; and the longest one to be ended by an arrival, so that a
/// missed one costs no more.
static constexpr microseconds kShortest(20), kLongestPolled(1000);

/// The looks until an arrival that woke a thread is used up. MPI's reads for
/// one operation may complete another, looked at earlier, and the library's own
/// collectives go on one round a look.
static constexpr int kLooksToSettle = 3;

Arrivals::Arrivals(bool polls) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!polls)
    return;
  for (fs::directory_iterator it("/proc/self/fd", error), end;
       !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (fs::read_symlink(it->path(), unreadable) == "anon_inode:[eventpoll]")
      descriptors.push_back(
          {std::stoi(it->path().filename().string()), POLLIN, 0});
  }
}

bool Arrivals::sleep(microseconds limit) const {
  if (descriptors.empty()) {
    std::this_thread::sleep_for(limit);
    return false;
  }
  // The kernel writes what it found, and two threads may sleep at a time.
  std::vector<pollfd> polled = descriptors;
  timespec timeout{0, static_cast<long>(limit.count()) * 1000};
  return ppoll(polled.data(), polled.size(), &timeout, nullptr) > 0;
}

Backoff::Backoff(Arrivals &arrivals, int looks, microseconds longest)
    : arrivals(arrivals), longest(longest), next(kShortest),
      looks(arrivals.isReliable() ? kLooksToSettle : looks) {}

void Backoff::pause() {
  if (looks > 0) {
    --looks;
    return;
  }
  woken = arrivals.sleep(next);
  slept = true;
  looks = kLooksToSettle;
  next = std::min(2 * next, arrivals.isReliable() ? kLongestPolled : longest);
}

void Backoff::moved() {
  if (slept)
    arrivals.setReliable(woken);
  next = kShortest;
}

} // namespace optrt
