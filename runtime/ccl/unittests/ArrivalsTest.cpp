//===- ArrivalsTest.cpp - Who sleeps is woken -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/mpi/Arrivals.h"

#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <thread>
#include <unistd.h>

using namespace optrt;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

/// An epoll descriptor that watches a pipe, as MPI has one for its sockets.
class ArrivalsTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(pipe(ends), 0);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT_GE(epoll, 0);
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
  }
  void TearDown() override {
    close(epoll);
    close(ends[0]);
    close(ends[1]);
  }
  void arrive() { ASSERT_EQ(write(ends[1], "x", 1), 1); }
  void read() {
    char byte;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  }

  int ends[2], epoll;
};

TEST_F(ArrivalsTest, DataEndsASleep) {
  Arrivals arrivals(/*polls=*/true);
  EXPECT_FALSE(arrivals.sleep(100us));
  auto begin = Clock::now();
  std::thread sender([&] {
    std::this_thread::sleep_for(5ms);
    arrive();
  });
  EXPECT_TRUE(arrivals.sleep(999ms));
  EXPECT_LT(Clock::now() - begin, 900ms);
  sender.join();
  read();
  EXPECT_FALSE(arrivals.sleep(100us));
}

TEST_F(ArrivalsTest, WithSharedMemoryOnlyTimeEndsASleep) {
  Arrivals arrivals(/*polls=*/false);
  arrive();
  auto begin = Clock::now();
  EXPECT_FALSE(arrivals.sleep(2ms));
  EXPECT_GE(Clock::now() - begin, 2ms);
}

TEST_F(ArrivalsTest, IsReliableWhereDataEndedTheSleepBefore) {
  Arrivals arrivals(/*polls=*/true);
  Backoff backoff(arrivals, /*looks=*/0, 100us);
  backoff.moved(); // nobody slept
  EXPECT_FALSE(arrivals.isReliable());
  arrive();
  backoff.pause();
  backoff.moved();
  EXPECT_TRUE(arrivals.isReliable());
  // Data seen after a sleep ended by time came by another way.
  read();
  for (int i = 0; i != 10; ++i)
    backoff.pause();
  backoff.moved();
  EXPECT_FALSE(arrivals.isReliable());
}

TEST_F(ArrivalsTest, SleepsStayShortWhereNothingEndsThem) {
  Arrivals arrivals(/*polls=*/true);
  Backoff backoff(arrivals, /*looks=*/100, 100us);
  auto begin = Clock::now();
  for (int i = 0; i != 100; ++i)
    backoff.pause();
  EXPECT_LT(Clock::now() - begin, 50ms); // it only looked
}

} // namespace
