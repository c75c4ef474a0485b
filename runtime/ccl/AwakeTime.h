//===- AwakeTime.h - How long a process has waited --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Limits on waiting. A process may be suspended, alone or with all others of
// its job: by a scheduler, by Ctrl-Z, with the whole machine. While it is, the
// steady clock goes on, and nobody is to blame for that time. So whoever waits
// looks at the time at least every kLongestLook. Where nobody has looked for
// longer, the process was suspended, and all waits are counted anew.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_AWAKETIME_H
#define OPTIMUS_RUNTIME_CCL_AWAKETIME_H

#include <chrono>

namespace optrt {

/// How far apart the looks of a process that runs are at most: a thread that
/// is kept from its core comes later than it wanted, but not by so much.
inline constexpr std::chrono::milliseconds kLongestLook(1000);

/// Notices a suspension since the last look. From any thread.
void look();

/// The seconds since `begin`, or since the process was last suspended where
/// that was later; a look. From any thread.
double awakeSince(std::chrono::steady_clock::time_point begin);

/// Says that the process was not suspended since the last look, although
/// nobody looked: something took long that cannot look itself.
void noteAwake();

/// Until when something may take.
class Deadline {
public:
  /// In so many seconds from now; never where `seconds` is 0.
  explicit Deadline(double seconds);

  bool hasPassed() const { return !isNever() && secondsLeft() <= 0; }
  /// How long poll(2) may wait before the next look; -1: for ever.
  int pollMilliseconds() const;

  /// The one that passes first.
  static Deadline earlierOf(Deadline a, Deadline b);

private:
  bool isNever() const { return seconds <= 0; }
  double secondsLeft() const { return seconds - awakeSince(begin); }

  std::chrono::steady_clock::time_point begin;
  double seconds;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_AWAKETIME_H
