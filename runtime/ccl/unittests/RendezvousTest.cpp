//===- RendezvousTest.cpp - How processes find each other -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/tcp/Rendezvous.h"

#include "ccl/peers/PeerSockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <poll.h>
#include <queue>
#include <set>
#include <thread>
#include <unistd.h>

using namespace optrt;
using testing::AllOf;
using testing::HasSubstr;

namespace {

class RendezvousTest : public testing::Test {
protected:
  struct Outcome {
    StatusOr<std::vector<Card>> cards = std::vector<Card>();
    bool isSaidElsewhere = false;
  };

  TcpJob job(int rank, int size) const {
    TcpJob one;
    one.rank = rank;
    one.size = size;
    one.job = "job";
    one.version = "optimus-run 1";
    one.meetingPoint = {"127.0.0.1", port, 1};
    one.timeoutSeconds = 20;
    return one;
  }

  static Card cardOf(std::size_t number) {
    return {concat("process ", number, " on here"), "here",
            concat("address of ", number)};
  }

  /// The outcome of a meeting of processes, each on a thread.
  static std::vector<Outcome> run(const std::vector<TcpJob> &jobs) {
    std::vector<Outcome> outcomes(jobs.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != jobs.size(); ++i)
      threads.emplace_back([&, i] {
        outcomes[i].cards = meet(jobs[i], JobKey(jobs[i].secret), cardOf(i),
                                 outcomes[i].isSaidElsewhere);
      });
    for (std::thread &thread : threads)
      thread.join();
    return outcomes;
  }

  /// All fail with what rank 0 says.
  static void expectRefusal(const std::vector<TcpJob> &jobs,
                            const testing::Matcher<std::string> &message) {
    std::vector<Outcome> outcomes = run(jobs);
    EXPECT_THAT(outcomes[0].cards.status().message(), message);
    EXPECT_FALSE(outcomes[0].isSaidElsewhere);
    for (std::size_t i = 1; i != outcomes.size(); ++i) {
      EXPECT_EQ(outcomes[i].cards.status().message(),
                outcomes[0].cards.status().message());
      EXPECT_TRUE(outcomes[i].isSaidElsewhere);
    }
  }

  // A port that is free now, and not taken by chance: other tests of this
  // moment begin elsewhere.
  const int port = [] {
    int number = 61440 + getpid() % 500;
    while (!listenOn(number).ok())
      ++number;
    return number;
  }();
};

TEST_F(RendezvousTest, EverybodyGetsTheCardsOfAll) {
  for (int size : {1, 2, 6}) {
    std::vector<TcpJob> jobs;
    for (int rank = 0; rank != size; ++rank)
      jobs.push_back(job(rank, size));
    for (const Outcome &outcome : run(jobs)) {
      ASSERT_TRUE(outcome.cards.ok()) << outcome.cards.status().message();
      ASSERT_EQ(static_cast<int>(outcome.cards->size()), size);
      for (int rank = 0; rank != size; ++rank)
        EXPECT_EQ((*outcome.cards)[rank].toText(), cardOf(rank).toText());
    }
  }
}

TEST_F(RendezvousTest, WhoComesTwiceIsNamed) {
  expectRefusal({job(0, 3), job(1, 3), job(1, 3)},
                AllOf(HasSubstr("two processes are rank 1: process "),
                      HasSubstr("process 1 on here"),
                      HasSubstr("process 2 on here")));
}

TEST_F(RendezvousTest, WhoComesTwiceInTheSameMomentIsNamed) {
  // In some rounds both greetings end between two looks at the sockets.
  for (int round = 0; round != 100; ++round)
    expectRefusal({job(0, 3), job(1, 3), job(1, 3)},
                  HasSubstr("two processes are rank 1: process "));
}

TEST_F(RendezvousTest, OtherNumbersOfRanksAreNamed) {
  expectRefusal(
      {job(0, 2), job(1, 3)},
      HasSubstr("rank 1 (process 1 on here) was started as one of 3 ranks, and "
                "rank 0 (process 0 on here) as one of 2"));
}

TEST_F(RendezvousTest, OtherVersionsAreNamed) {
  TcpJob other = job(1, 2);
  other.version = "optimus-run 2";
  expectRefusal({job(0, 2), other},
                HasSubstr("rank 1 (process 1 on here) runs optimus-run 2, and "
                          "rank 0 (process 0 on here) optimus-run 1"));
}

TEST_F(RendezvousTest, WhoDoesNotComeIsNamed) {
  std::vector<TcpJob> jobs = {job(0, 5), job(1, 5), job(3, 5)};
  for (TcpJob &one : jobs)
    one.timeoutSeconds = 1;
  expectRefusal(jobs, AllOf(HasSubstr("ranks 2 and 4 of 5 did not come to "
                                      "127.0.0.1:"),
                            HasSubstr("within 1 s")));
}

TEST_F(RendezvousTest, WithoutRankZeroEachSaysSo) {
  TcpJob alone = job(2, 3);
  alone.timeoutSeconds = 0.3;
  std::vector<Outcome> outcomes = run({alone});
  EXPECT_FALSE(outcomes[0].isSaidElsewhere);
  EXPECT_THAT(outcomes[0].cards.status().message(),
              AllOf(HasSubstr("rank 2 (process 0 on here) did not find rank 0"),
                    HasSubstr("nobody listens there")));
  alone.meetingPoint.host = "no-such-host.invalid";
  testing::internal::CaptureStderr();
  EXPECT_THAT(run({alone})[0].cards.status().message(),
              HasSubstr("nobody knows that host"));
  // At once, and once however often it is looked up.
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "optimus-run: warning: rank 2 (process 0 on here): nobody knows "
            "the host `no-such-host.invalid`, where rank 0 should be; it is "
            "looked up again for 0.3 s\n");
}

TEST_F(RendezvousTest, AnotherJobIsSentAway) {
  TcpJob other = job(1, 2);
  other.job = "other";
  other.timeoutSeconds = 0.5;
  std::vector<Outcome> outcomes = run({job(0, 2), other, job(1, 2)});
  EXPECT_TRUE(outcomes[0].cards.ok()) << outcomes[0].cards.status().message();
  EXPECT_TRUE(outcomes[2].cards.ok());
  EXPECT_FALSE(outcomes[1].cards.ok());
}

TEST_F(RendezvousTest, AnotherSecretIsSaidByBoth) {
  TcpJob mistaken = job(1, 2);
  mistaken.secret = "another";
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Outcome> outcomes = run({job(0, 2), mistaken});
  EXPECT_THAT(outcomes[0].cards.status().message(),
              AllOf(HasSubstr("rank 1 (process 1 on here) has another secret "
                              "of the job than rank 0 (process 0 on here)"),
                    HasSubstr("OPTIMUS_JOB_SECRET")));
  EXPECT_THAT(outcomes[1].cards.status().message(),
              AllOf(HasSubstr("rank 1 (process 1 on here) at 127.0.0.1:"),
                    HasSubstr("rank 0 (process 0 on here) has another secret"),
                    HasSubstr("OPTIMUS_JOB_SECRET")));
  EXPECT_FALSE(outcomes[1].isSaidElsewhere);
  // Long before the timeout.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(RendezvousTest, WhoHasAnotherSecretKeepsNobodyFromMeeting) {
  TcpJob stranger = job(1, 2);
  stranger.secret = "another";
  std::vector<Outcome> outcomes;
  std::thread waits([&] { outcomes = run({job(0, 2)}); });
  EXPECT_FALSE(run({stranger})[0].cards.ok());
  EXPECT_TRUE(run({job(1, 2)})[0].cards.ok());
  waits.join();
  EXPECT_TRUE(outcomes[0].cards.ok());
}

TEST_F(RendezvousTest, StrangersKeepNobodyFromMeeting) {
  std::vector<Outcome> outcomes;
  std::thread job01([&] { outcomes = run({job(0, 2)}); });
  // Strangers: one speaks another language, one says nothing, one promises more
  // than there is, and one ends in the middle.
  std::vector<Socket> strangers;
  for (const char *text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "",
                           "OPTIMUS\nffffffff", "OPTIMUS\n000"}) {
    Socket stranger;
    while (!stranger.isOpen())
      stranger = connectTo("127.0.0.1", port, Deadline(20));
    sendAll(stranger, text, Deadline(20));
    strangers.push_back(std::move(stranger));
  }
  strangers.pop_back();
  // The first is sent away at once.
  EXPECT_EQ(receiveText(strangers[0], 1, Deadline(20)), "");
  EXPECT_TRUE(run({job(1, 2)})[0].cards.ok());
  job01.join();
  EXPECT_TRUE(outcomes[0].cards.ok());
}

TEST_F(RendezvousTest, LooksAtTheNextPortsWhereTheFirstIsTaken) {
  // By one that does not answer, as torchrun's own store.
  StatusOr<Socket> taken = listenOn(port);
  ASSERT_TRUE(taken.ok());
  std::thread closes([&] {
    if (isReady(taken->get(), POLLIN, Deadline(20)))
      acceptFrom(*taken);
  });
  std::vector<TcpJob> jobs = {job(0, 2), job(1, 2)};
  for (TcpJob &one : jobs)
    one.meetingPoint.numPorts = 16;
  for (const Outcome &outcome : run(jobs))
    EXPECT_TRUE(outcome.cards.ok()) << outcome.cards.status().message();
  closes.join();
}

TEST_F(RendezvousTest, APortThatIsTakenIsNamed) {
  StatusOr<Socket> taken = listenOn(port);
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(run({job(0, 2)})[0].cards.status().message(),
              AllOf(HasSubstr(concat("cannot listen on port ", port)),
                    HasSubstr("choose a port that is free")));
}

TEST(Overlay, ReachesEverybodyOverFewConnections) {
  for (int size : {1, 2, 3, 5, 6, 64, 100}) {
    for (int rank = 0; rank != size; ++rank) {
      std::vector<int> peers = overlayPeers(rank, size);
      double rounds = std::ceil(std::log2(size));
      EXPECT_LE(peers.size(), 2 * rounds) << size;
      for (int peer : peers) {
        EXPECT_NE(peer, rank);
        std::vector<int> back = overlayPeers(peer, size);
        EXPECT_TRUE(std::count(back.begin(), back.end(), rank));
      }
    }
    // From rank 0, with two that are dead.
    std::set<int> reached{0}, dead;
    if (size > 5)
      dead = {1, 4};
    std::queue<int> next;
    for (next.push(0); !next.empty(); next.pop())
      for (int peer : overlayPeers(next.front(), size))
        if (!dead.count(peer) && reached.insert(peer).second)
          next.push(peer);
    EXPECT_EQ(reached.size() + dead.size(), static_cast<std::size_t>(size));
  }
}

} // namespace
