//===- WritingPaceTest.cpp - When threads write beside steps --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/WritingPace.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <time.h>
#include <vector>

using namespace optrt;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

/// Spends so much of the calling thread's time of a core.
void work(std::chrono::nanoseconds time) {
  auto now = [] {
    timespec found{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &found);
    return std::chrono::seconds(found.tv_sec) +
           std::chrono::nanoseconds(found.tv_nsec);
  };
  for (const auto end = now() + time; now() < end;)
    ;
}

/// Threads that work a millisecond at a time, and how often they have.
struct Workers {
  Workers(WritingPace &pace, int count, int pieces) {
    for (int i = 0; i != count; ++i)
      threads.emplace_back([this, &pace, pieces] {
        WritingPace::Turn turn(pace);
        for (int piece = 0; piece != pieces; ++piece) {
          turn.wait();
          work(1ms);
          ++done;
        }
      });
  }
  ~Workers() {
    for (std::thread &thread : threads)
      thread.join();
  }

  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
};

TEST(WritingPace, AThreadWorksAsLongAsItIsGiven) {
  WritingPace pace(/*threads=*/2, /*always=*/false);
  Workers workers(pace, 2, 100);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(workers.done, 0);
  auto expectDone = [&](int pieces) {
    while (workers.done < pieces)
      std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(workers.done, pieces);
  };
  pace.give(2500us);
  expectDone(2 * 3);
  pace.give(1500us);
  expectDone(2 * 5);
  pace.hurry();
}

TEST(WritingPace, WaitsNoLongerThanThreadsWork) {
  WritingPace pace(/*threads=*/1, /*always=*/false);
  Workers workers(pace, 1, 2);
  const Clock::time_point start = Clock::now();
  // One that is done waits for nothing.
  pace.give(1h);
  EXPECT_LT(Clock::now() - start, 1min);
}

TEST(WritingPace, NobodyWaitsForOneThatIsHeldUp) {
  WritingPace pace(/*threads=*/1, /*always=*/false);
  pace.give(1ms);
  Workers workers(pace, 1, 2);
  pace.hurry();
}

TEST(WritingPace, NobodyWaitsForThoseThatWorkBeside) {
  WritingPace pace(/*threads=*/1, /*always=*/true);
  WritingPace::Turn turn(pace);
  const Clock::time_point start = Clock::now();
  pace.give(20s);
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(WritingPace, AllWorkOnceSomebodyWaits) {
  WritingPace pace(/*threads=*/2, /*always=*/false);
  {
    Workers workers(pace, 2, 3);
    pace.hurry();
  }
  WritingPace unlimited(/*threads=*/1, /*always=*/true);
  Workers workers(unlimited, 1, 3);
}

} // namespace
