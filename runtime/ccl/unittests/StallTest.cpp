//===- StallTest.cpp - Who is to blame ------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/Stall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// Four ranks of row:2,col:2 that have started 5 collectives on each axis.
class StallTest : public testing::Test {
protected:
  StallTest() : mesh({{"row", 2}, {"col", 2}}), ranks(4) {
    for (int rank = 0; rank != 4; ++rank) {
      ranks[rank].activity.started = {5, 5};
      ranks[rank].activity.command = {uint32_t(100 + rank)};
    }
  }

  /// Rank waits for collective number `sequence` on an axis.
  void wait(int rank, int axis, uint64_t sequence, double seconds) {
    ActivitySnapshot &at = ranks[rank].activity;
    if (axis >= 0)
      at.started[axis] = std::max(at.started[axis], sequence);
    at.waitingAxis = axis;
    at.waitingSequence = sequence;
    at.waitedSeconds = seconds;
    at.waitingCommand = {uint32_t(200 + rank), /*function=*/1};
  }

  std::optional<Stall> find(double timeout = 10) const {
    return findStall(
        ranks, mesh,
        [](int rank, CommandId command) {
          return concat("h.", rank, command.function ? ".norm" : ".mlp", " (",
                        command.number, ")");
        },
        timeout);
  }

  optimus_support::Mesh mesh;
  std::vector<RankReport> ranks;
};

TEST_F(StallTest, NobodyWhileAllIsWell) {
  wait(0, 1, 6, 9.5);
  ranks[3].silentSeconds = 9.5;
  EXPECT_FALSE(find());
}

TEST_F(StallTest, WhoseMessageAnotherWaitsFor) {
  wait(1, 0, /*sequence=*/0, 12.5);
  ranks[1].activity.waitingPeer = 1;
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 3);
  EXPECT_EQ(stall->message,
            "rank 3 stalled in h.3.mlp (103): rank 1 has waited 12.5 s for "
            "h.1.norm (201), a message with rank 3, which it has not started");
  // Who waits itself is not to blame.
  wait(3, 1, 6, 2);
  ranks[3].activity.started[1] = 6;
  stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 2);
}

TEST_F(StallTest, WhoHasNotStartedWhatAnotherWaitsFor) {
  // Rank 1 is rank 0's neighbour on col; 2 and 3 have nothing to do with it.
  wait(0, 1, 6, 12.5);
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 1);
  EXPECT_EQ(stall->message,
            "rank 1 stalled in h.1.mlp (101): rank 0 has waited 12.5 s for "
            "h.0.norm (200), collective 6 on mesh axis col, which it has not "
            "started");
}

TEST_F(StallTest, ARankMayStallBeforeItsFirstCommand) {
  wait(0, 1, 6, 12.5);
  ranks[1].activity.command = {};
  EXPECT_THAT(find()->message,
              HasSubstr("rank 1 stalled before its first command: rank 0 has"));
}

TEST_F(StallTest, TheLastOfThoseThatWaitForOneAnother) {
  wait(0, 1, 6, 12);
  wait(1, 0, 6, 11);
  // Rank 3 is rank 1's neighbour on row.
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 3);
  EXPECT_THAT(stall->message, HasSubstr("rank 1 has waited 11.0 s"));
  EXPECT_THAT(stall->message, HasSubstr("mesh axis row"));
}

TEST_F(StallTest, ARankThatDiedNamesWhoWaits) {
  wait(0, 1, 6, 0.5);
  ranks[2].gone = true;
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 2);
  EXPECT_EQ(stall->message,
            "rank 2 died; the last known of it was h.2.mlp (102); rank 0 has "
            "waited 0.5 s for h.0.norm (200), collective 6 on mesh axis col");
  ranks[2].activity.command = {};
  EXPECT_THAT(find()->message,
              HasSubstr("rank 2 died; it had begun no command"));
  ranks[2].place = "process 17 on node4";
  EXPECT_THAT(find()->message,
              HasSubstr("; rank 2 ran as process 17 on node4"));
}

TEST_F(StallTest, SilenceIsNotedAfterTheTimeout) {
  wait(3, 0, 4, 2);
  ranks[3].silentSeconds = 10.5;
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 3);
  EXPECT_THAT(stall->message, HasSubstr("rank 3 was not heard of for 10.5 s"));
  EXPECT_THAT(stall->message,
              HasSubstr("it was in h.3.norm (203), collective 4"));
}

TEST_F(StallTest, TheControlPlaneTakesAsLongAsItTakes) {
  wait(0, -1, 0, 1000);
  EXPECT_FALSE(find());
  ranks[1].gone = true;
  EXPECT_THAT(find()->message,
              HasSubstr("rank 0 has waited 1000.0 s for the exchange between"));
}

TEST_F(StallTest, WhoDoesNotComeToWhereAllMeetIsNamed) {
  constexpr int kMeeting = RankActivity::kMeeting;
  wait(0, kMeeting, 0, 12);
  wait(1, RankActivity::kAgreement, 0, 12);
  wait(2, kMeeting, 0, 9);
  wait(3, 0, 6, 9);
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 1);
  EXPECT_EQ(stall->message, "ranks 1, 3 are not ready: rank 0 has waited "
                            "12.0 s to begin with them");
  wait(3, kMeeting, 0, 9);
  EXPECT_EQ(find()->message,
            "rank 1 is not ready: rank 0 has waited 12.0 s to begin with it");
  wait(1, kMeeting, 0, 9);
  EXPECT_THAT(find()->message, HasSubstr("the others, which are all ready"));
  EXPECT_FALSE(find(/*timeout=*/13));
}

TEST_F(StallTest, WhenAllHaveStartedItIsTheNetwork) {
  wait(0, 1, 6, 12);
  wait(1, 1, 6, 12);
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->message, HasSubstr("all its ranks have started"));
}

TEST_F(StallTest, RanksThatWaitForEachOtherAreFound) {
  // Each waits for a collective that the other has not started.
  wait(0, 1, 6, 12);
  ranks[1].activity.started = {5, 5};
  wait(1, 0, 6, 12);
  wait(3, 1, 6, 12);
  wait(2, 0, 6, 12);
  ranks[0].activity.started = {5, 6};
  ranks[1].activity.started = {6, 5};
  ranks[3].activity.started = {5, 6};
  ranks[2].activity.started = {6, 5};
  std::optional<Stall> stall = find();
  ASSERT_TRUE(stall);
  EXPECT_THAT(stall->message, HasSubstr("ranks wait for each other"));
}

} // namespace
