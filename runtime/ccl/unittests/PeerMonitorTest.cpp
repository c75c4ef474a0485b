//===- PeerMonitorTest.cpp - One rank says what happened ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/peers/PeerMonitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <future>
#include <sys/socket.h>

using namespace optrt;
using namespace std::chrono_literals;

namespace {

/// A monitor whose peers are the test: sockets of which this holds the far
/// ends.
class PeerMonitorTest : public testing::Test {
protected:
  struct Stall {
    Status status;
    bool speaks;
  };

  /// Connects rank 1 of 3. What is sent before watch() is there at once.
  void SetUp() override {
    for (int peer = 0; peer != kSize; ++peer) {
      int pair[2] = {-1, -1};
      if (peer != kRank) {
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        fcntl(pair[0], F_SETFL, O_NONBLOCK);
      }
      near.emplace_back(pair[0]);
      far.emplace_back(pair[1]);
    }
  }

  // As the other ranks do; the monitor waits for it.
  void TearDown() override { far.clear(); }

  void watch() {
    PeerMonitor::Options options;
    options.rank = kRank;
    options.size = kSize;
    options.timeoutSeconds = 60;
    options.activity = &activity;
    options.onStall = [this](const Status &status, bool speaks) {
      stalled.set_value({status, speaks});
    };
    options.endProcess = [this](int exitCode) { ended.set_value(exitCode); };
    monitor = std::make_unique<PeerMonitor>(std::move(near), options);
    ASSERT_TRUE(monitor->start().ok());
  }

  /// What precedes a message, and itself.
  static std::string messageOf(uint32_t type, const std::string &payload) {
    uint32_t header[] = {type, static_cast<uint32_t>(payload.size())};
    return std::string(reinterpret_cast<char *>(header), sizeof(header)) +
           payload;
  }

  void send(int peer, uint32_t type, const std::string &payload) {
    const std::string bytes = messageOf(type, payload);
    ASSERT_EQ(write(far[peer].get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }

  /// Waits until a peer has been told this.
  void expectMessage(int peer, uint32_t type, const std::string &payload) {
    std::string said;
    char buffer[4096];
    ssize_t got;
    while (said.find(messageOf(type, payload)) == std::string::npos &&
           (got = read(far[peer].get(), buffer, sizeof(buffer))) > 0)
      said.append(buffer, got);
    EXPECT_THAT(said, testing::HasSubstr(messageOf(type, payload)));
  }

  template <typename T>
  static T waitFor(std::promise<T> &promise) {
    std::future<T> future = promise.get_future();
    EXPECT_EQ(future.wait_for(30s), std::future_status::ready);
    return future.get();
  }
  Stall waitForStall() { return waitFor(stalled); }

  static constexpr int kRank = 1, kSize = 3;
  static constexpr uint32_t kGoodbye = 1, kVerdict = 2, kReady = 4;
  RankActivity activity;
  PeerSockets near, far;
  std::promise<Stall> stalled;
  std::promise<int> ended;
  std::unique_ptr<PeerMonitor> monitor;
};

TEST_F(PeerMonitorTest, WhoIsToldWhatAnotherSaysKeepsSilent) {
  // Rank 0 says that rank 2 died, and is gone before rank 1 reads it.
  send(0, kVerdict, "2 0 1 rank 2 died");
  far[0].close();
  watch();
  Stall stall = waitForStall();
  EXPECT_FALSE(stall.speaks);
  EXPECT_EQ(stall.status.message(), "rank 2 died");
}

TEST_F(PeerMonitorTest, WhoIsChosenSpeaks) {
  watch();
  send(2, kVerdict, "0 1 1 rank 0 died\nin its third collective");
  Stall stall = waitForStall();
  EXPECT_TRUE(stall.speaks);
  EXPECT_EQ(stall.status.message(), "rank 0 died\nin its third collective");
}

TEST_F(PeerMonitorTest, WhoLeavesHearsTheOthersToTheEnd) {
  watch();
  std::thread leaves([&] { monitor.reset(); });
  // It says that it leaves, and no more. A connection closed now, with
  // something unread, might be reset before its words were on their way.
  std::string said;
  char buffer[4096];
  ssize_t got;
  while ((got = read(far[0].get(), buffer, sizeof(buffer))) > 0)
    said.append(buffer, got);
  EXPECT_EQ(got, 0);
  const std::string expected = messageOf(kGoodbye, std::to_string(kRank));
  ASSERT_GE(said.size(), expected.size());
  EXPECT_EQ(said.substr(said.size() - expected.size()), expected);
  EXPECT_EQ(::send(far[0].get(), buffer, 1, MSG_NOSIGNAL), 1);
  far.clear();
  leaves.join();
}

TEST_F(PeerMonitorTest, TheLowestThatLivesSpeaks) {
  watch();
  far[0].close();
  Stall stall = waitForStall();
  EXPECT_TRUE(stall.speaks);
}

TEST_F(PeerMonitorTest, AllEndOnceAllAreReady) {
  watch();
  far[2].close();
  send(0, kVerdict, "2 0 1 rank 2 died");
  std::future<int> end = ended.get_future();
  expectMessage(0, kReady, std::to_string(kRank));
  EXPECT_EQ(end.wait_for(0s), std::future_status::timeout);
  send(0, kReady, "0");
  EXPECT_EQ(end.get(), 1);
}

TEST_F(PeerMonitorTest, WhoDoesNotGetReadyKeepsNobodyForLong) {
  watch();
  send(0, kVerdict, "0 0 2 rank 0 ended the job");
  send(0, kReady, "0");
  // Rank 2 lives and says nothing.
  EXPECT_EQ(waitFor(ended), 2);
}

TEST_F(PeerMonitorTest, ARankEndsAllWithItsCode) {
  watch();
  std::thread ends([&] { monitor->endAll(2); });
  expectMessage(0, kReady, std::to_string(kRank));
  send(0, kReady, "0");
  send(2, kReady, "2");
  EXPECT_EQ(waitFor(ended), 2);
  ends.join();
  // It has said why itself.
  EXPECT_EQ(stalled.get_future().wait_for(0s), std::future_status::timeout);
}

} // namespace
