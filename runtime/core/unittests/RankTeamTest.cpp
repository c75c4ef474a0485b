//===- RankTeamTest.cpp - The threads of a process's ranks ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/RankTeam.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>

using namespace optrt;

namespace {

TEST(RankTeam, RanksRunAtTheSameTimeAndKeepTheirThreads) {
  RankTeam team(3, [] {});
  std::vector<std::thread::id> first(3), second(3);
  std::atomic<int> arrived{0};
  // None returns before all have come: they run at the same time.
  ASSERT_TRUE(team.run([&](int i) {
                    first[i] = std::this_thread::get_id();
                    ++arrived;
                    while (arrived != 3)
                      std::this_thread::yield();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(team.run([&](int i) {
                    second[i] = std::this_thread::get_id();
                    return okStatus();
                  })
                  .ok());
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3u);
}

TEST(RankTeam, ASingleRankRunsOnTheCallersThread) {
  RankTeam team(1, [] {});
  std::thread::id id;
  ASSERT_TRUE(team.run([&](int) {
                    id = std::this_thread::get_id();
                    return okStatus();
                  })
                  .ok());
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(RankTeam, TheFirstFailureIsReportedAndWakesTheOthers) {
  std::atomic<bool> woken{false};
  std::atomic<int> calls{0};
  RankTeam team(4, [&] {
    ++calls;
    woken = true;
  });
  Status status = team.run([&](int i) {
    if (i == 2)
      return internal("the cause");
    while (!woken)
      std::this_thread::yield();
    return internal("a consequence");
  });
  EXPECT_EQ(status.message(), "the cause");
  EXPECT_EQ(calls, 1);
}

} // namespace
