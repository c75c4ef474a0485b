//===- AwakeTime.cpp - How long a process has waited ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AwakeTime.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <mutex>
#include <optional>

namespace optrt {
namespace {

using Clock = std::chrono::steady_clock;

/// Goes on while the machine sleeps, unlike the steady clock: it sees stopped
/// processes and sleeping machines alike.
std::chrono::nanoseconds bootTime() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

struct Looks {
  std::mutex mutex;
  std::optional<std::chrono::nanoseconds> last;
  Clock::time_point wokeAt = Clock::time_point::min();
};

Looks &looks() {
  static Looks theLooks;
  return theLooks;
}

} // namespace

double awakeSince(Clock::time_point begin) {
  Looks &all = looks();
  std::lock_guard lock(all.mutex);
  Clock::time_point now;
  // The process may be suspended between the two clocks, too: then the time is
  // of before, and is read again.
  for (bool hasGap = true; hasGap;) {
    now = Clock::now();
    const std::chrono::nanoseconds boot = bootTime();
    hasGap = all.last && boot - *all.last > kLongestLook;
    if (hasGap)
      all.wokeAt = Clock::time_point::max();
    all.last = boot;
  }
  // Noticed in this look.
  if (all.wokeAt == Clock::time_point::max())
    all.wokeAt = now;
  return std::chrono::duration<double>(now - std::max(begin, all.wokeAt))
      .count();
}

void look() { awakeSince(Clock::now()); }

void noteAwake() {
  Looks &all = looks();
  std::lock_guard lock(all.mutex);
  all.last = bootTime();
}

Deadline::Deadline(double seconds) : begin(Clock::now()), seconds(seconds) {}

int Deadline::pollMilliseconds() const {
  if (isNever())
    return -1;
  constexpr double kLook = 1e-3 * kLongestLook.count() / 4;
  return static_cast<int>(
      std::ceil(1e3 * std::clamp(secondsLeft(), 0.0, kLook)));
}

Deadline Deadline::earlierOf(Deadline a, Deadline b) {
  if (a.isNever() || b.isNever())
    return a.isNever() ? b : a;
  return a.secondsLeft() < b.secondsLeft() ? a : b;
}

} // namespace optrt
