//===- RankTeamTest.cpp - The threads of a process's ranks ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/RankTeam.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/resource.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

std::unique_ptr<RankTeam> makeTeam(int ranks, RankTeam::OnFailure onFailure) {
  auto team = RankTeam::create(ranks, std::move(onFailure));
  EXPECT_TRUE(team.ok()) << team.status().message();
  return std::move(team).value();
}

TEST(RankTeam, RanksRunAtTheSameTimeAndKeepTheirThreads) {
  std::unique_ptr<RankTeam> team = makeTeam(3, [](const Status &) {});
  std::vector<std::thread::id> first(3), second(3);
  std::atomic<int> arrived{0};
  // None returns before all have come: they run at the same time.
  ASSERT_TRUE(team->run([&](int i) {
                    first[i] = std::this_thread::get_id();
                    ++arrived;
                    while (arrived != 3)
                      std::this_thread::yield();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(team->run([&](int i) {
                    second[i] = std::this_thread::get_id();
                    return okStatus();
                  })
                  .ok());
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3u);
}

TEST(RankTeam, ASingleRankRunsOnTheCallersThread) {
  std::unique_ptr<RankTeam> team = makeTeam(1, [](const Status &) {});
  std::thread::id id;
  ASSERT_TRUE(team->run([&](int) {
                    id = std::this_thread::get_id();
                    return okStatus();
                  })
                  .ok());
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(RankTeam, TheFirstFailureIsReportedAndWakesTheOthers) {
  std::atomic<bool> woken{false};
  std::atomic<int> calls{0};
  std::unique_ptr<RankTeam> team = makeTeam(4, [&](const Status &failure) {
    EXPECT_EQ(failure.message(), "the cause");
    ++calls;
    woken = true;
  });
  Status status = team->run([&](int i) {
    if (i == 2)
      return internal("the cause");
    while (!woken)
      std::this_thread::yield();
    return internal("a consequence");
  });
  EXPECT_EQ(status.message(), "the cause");
  EXPECT_EQ(calls, 1);
}

TEST(RankTeam, TheCallerGoesOnWhileRanksRun) {
  std::unique_ptr<RankTeam> team = makeTeam(3, [](const Status &) {});
  std::atomic<bool> released{false};
  std::atomic<int> finished{0};
  ASSERT_TRUE(team->submit(
                      [&](int) {
                        while (!released)
                          std::this_thread::yield();
                        return okStatus();
                      },
                      [&](int) {
                        ++finished;
                        return okStatus();
                      })
                  .ok());
  // They would wait for ever, if this came back with the last of them.
  EXPECT_TRUE(team->isBusy());
  EXPECT_EQ(finished, 0);
  released = true;
  EXPECT_TRUE(team->collect().ok());
  EXPECT_EQ(finished, 3);
  EXPECT_FALSE(team->isBusy());
}

TEST(RankTeam, ASingleRankStartsAtOnceAndFinishesWhenItIsCollected) {
  std::unique_ptr<RankTeam> team = makeTeam(1, [](const Status &) {});
  std::string order;
  auto note = [&](char letter) {
    return [&order, letter](int) {
      order += letter;
      return okStatus();
    };
  };
  ASSERT_TRUE(team->submit(note('s'), note('f')).ok());
  order += '-';
  ASSERT_TRUE(team->collect().ok());
  EXPECT_EQ(order, "s-f");
}

TEST(RankTeam, WhatFailedToStartIsNotFinished) {
  for (int ranks : {1, 3}) {
    std::unique_ptr<RankTeam> team = makeTeam(ranks, [](const Status &) {});
    std::atomic<int> finished{0};
    ASSERT_TRUE(
        team->submit(
                [&](int i) { return i == 0 ? internal("broken") : okStatus(); },
                [&](int) {
                  ++finished;
                  return okStatus();
                })
            .ok());
    EXPECT_EQ(team->collect().message(), "broken");
    EXPECT_EQ(finished, ranks - 1);
  }
}

TEST(RankTeam, HasOneTaskAtATime) {
  for (int ranks : {1, 2}) {
    std::unique_ptr<RankTeam> team = makeTeam(ranks, [](const Status &) {});
    auto nothing = [](int) { return okStatus(); };
    EXPECT_THAT(team->collect().message(), HasSubstr("no task"));
    ASSERT_TRUE(team->submit(nothing, nothing).ok());
    EXPECT_THAT(team->run(nothing).message(),
                HasSubstr("while another is under way"));
    EXPECT_TRUE(team->collect().ok());
    EXPECT_TRUE(team->run(nothing).ok());
  }
}

TEST(RankTeam, WhatARankThrowsIsAFailure) {
  for (int ranks : {1, 3}) {
    std::unique_ptr<RankTeam> team = makeTeam(ranks, [](const Status &) {});
    Status status = team->run([&](int i) -> Status {
      if (i == ranks - 1)
        throw std::bad_alloc();
      return okStatus();
    });
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_THAT(status.message(), HasSubstr("out of memory"));
  }
}

// Sanitizers need more address space than any limit leaves them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(RankTeamDeathTest, TooFewThreadsAreAFailureAndNoHang) {
  auto make = [] {
    // Room for some stacks of 8 MiB, not for a thousand.
    rlimit limit{512 << 20, 512 << 20};
    setrlimit(RLIMIT_AS, &limit);
    auto team = RankTeam::create(1000, [](const Status &) {});
    std::fprintf(stderr, "%s", team.status().message().c_str());
    std::_Exit(team.status().exitCode());
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(1),
              "cannot start thread [0-9]+ of the 1000 that are ranks: .*"
              "ulimit -v 524288");
}
#endif

} // namespace
