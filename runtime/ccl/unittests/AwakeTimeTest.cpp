//===- AwakeTimeTest.cpp - Waits of a process that is suspended -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/AwakeTime.h"

#include "ccl/local/Watchdog.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace optrt;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// Whoever waits looks often.
void waitFor(std::chrono::milliseconds time) {
  for (const Clock::time_point end = Clock::now() + time; Clock::now() < end;
       std::this_thread::sleep_for(20ms))
    look();
}

/// Runs `body` in a process, which is stopped after `before` for `stopped`, and
/// returns its exit code.
int runSuspended(std::chrono::milliseconds before,
                 std::chrono::milliseconds stopped,
                 const std::function<int()> &body) {
  const pid_t child = fork();
  if (child == 0)
    _exit(body());
  std::this_thread::sleep_for(before);
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(stopped);
  kill(child, SIGCONT);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(AwakeTime, IsTheSteadyClocksWhileSomebodyLooks) {
  look();
  const Clock::time_point begin = Clock::now();
  waitFor(1500ms);
  EXPECT_GE(awakeSince(begin), 1.5);
}

TEST(AwakeTime, BeginsAnewAfterASuspension) {
  EXPECT_EQ(runSuspended(300ms, 1500ms,
                         [] {
                           look();
                           const Clock::time_point begin = Clock::now();
                           waitFor(1000ms);
                           // On the steady clock it is 1.5 s at least.
                           return awakeSince(begin) < 0.5 ? 0 : 1;
                         }),
            0);
}

TEST(AwakeTime, WhatTakesLongIsNoSuspension) {
  look();
  const Clock::time_point begin = Clock::now();
  std::this_thread::sleep_for(kLongestLook + 100ms);
  noteAwake();
  EXPECT_GE(awakeSince(begin), 1.1);
}

TEST(AwakeTime, DeadlinesOfASuspendedProcessAreLater) {
  EXPECT_EQ(runSuspended(300ms, 1500ms,
                         [] {
                           const Deadline deadline(1), never(0);
                           waitFor(1000ms);
                           if (deadline.hasPassed())
                             return 1;
                           waitFor(1100ms);
                           return !deadline.hasPassed() || never.hasPassed()
                                      ? 2
                                      : 0;
                         }),
            0);
}

/// The fate of an awaited rank, and of its process.
int watchSuspended(std::chrono::milliseconds limit) {
  RankActivity waiting, other;
  waiting.started[0] = 1;
  waiting.waitingSequence = 1;
  std::atomic<bool> isBlamed{false};
  Watchdog watchdog(
      {&waiting, &other}, optimus_support::Mesh({{"data", 2}}),
      [](int, CommandId) { return "h.0"; }, /*timeoutSeconds=*/1,
      [&](const Status &status) {
        isBlamed = status.message().find("rank 1 stalled") != std::string::npos;
      });
  if (!watchdog.start().ok())
    return 3;
  // Nobody waits until just before all are stopped.
  std::this_thread::sleep_for(200ms);
  waiting.since = Clock::now().time_since_epoch().count();
  for (const Clock::time_point end = Clock::now() + limit;
       Clock::now() < end && !isBlamed;)
    std::this_thread::sleep_for(20ms);
  return isBlamed ? 1 : 0;
}

TEST(AwakeTime, NobodyIsToBlameForASuspension) {
  EXPECT_EQ(runSuspended(500ms, 1500ms, [] { return watchSuspended(2200ms); }),
            0);
}

TEST(AwakeTime, WhoStallsAfterwardsIsNamed) {
  EXPECT_EQ(runSuspended(500ms, 1500ms, [] { return watchSuspended(20s); }), 1);
}

} // namespace
