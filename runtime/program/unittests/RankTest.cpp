//===- RankTest.cpp - What a rank does for each kind of command -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Rank.h"

#include "RecordingDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

// The rule of docs/manifest.md, S being the bytes of the whole tensor.
TEST(CollectiveBytes, FollowTheRule) {
  optrt_collective_desc desc{};
  desc.outer = 3;
  desc.inner = 5;
  constexpr int64_t kBlock = 3 * 5 * 4;
  desc.kind = OPTRT_BROADCAST;
  EXPECT_EQ(collectiveBytes(desc, 4), 3 * kBlock);
  desc.kind = OPTRT_REDUCE;
  EXPECT_EQ(collectiveBytes(desc, 4), 3 * kBlock);
  desc.kind = OPTRT_ALL_REDUCE;
  EXPECT_EQ(collectiveBytes(desc, 4), 2 * 3 * kBlock);
  desc.kind = OPTRT_ALL_GATHER;
  EXPECT_EQ(collectiveBytes(desc, 4), 3 * 4 * kBlock);
  desc.kind = OPTRT_REDUCE_SCATTER;
  EXPECT_EQ(collectiveBytes(desc, 4), 3 * 4 * kBlock);
  EXPECT_EQ(collectiveBytes(desc, 1), 0);
  desc.type = OPTRT_BF16;
  EXPECT_EQ(collectiveBytes(desc, 4), 3 * 4 * kBlock / 2);
}

/// One rank of a mesh row:1,col:1.
class RankTest : public testing::Test {
protected:
  RankTest() : mesh({{"row", 1}, {"col", 1}}), world(createLocalWorld()) {
    EXPECT_TRUE(world.layOut(mesh).ok());
    auto recording = std::make_unique<RecordingDevice>();
    device = recording.get();
    rank = std::make_unique<Rank>(mesh, world, 0, std::move(recording));
  }

  Status start(optrt_collective_desc desc) {
    return rank->startCollective(5, desc, values, values + 8);
  }
  Status wait(uint32_t started) { return rank->waitForCollective(6, started); }

  Mesh mesh;
  World world;
  RecordingDevice *device;
  std::unique_ptr<Rank> rank;
  float values[16] = {1, 2, 3};
};

TEST_F(RankTest, CountsByAxis) {
  ASSERT_TRUE(
      start({OPTRT_ALL_REDUCE, OPTRT_SUM, 1, 0, 1, 4, 4, 4, OPTRT_F32}).ok());
  ASSERT_TRUE(wait(5).ok());
  EXPECT_EQ(values[8 + 2], 3);
  EXPECT_EQ(rank->traffic[0].messages, 0);
  EXPECT_EQ(rank->traffic[1].messages, 1);
}

TEST_F(RankTest, OverlappingFlightsCountOnce) {
  using std::chrono::seconds;
  Communicator::Clock::time_point zero;
  auto interval = [&](int32_t axis, int begin, int end) {
    rank->intervals.push_back(
        {axis, zero + seconds(begin), zero + seconds(end)});
  };
  // In the order of their waits: one within another, one that goes beyond, and
  // one apart.
  interval(0, 12, 14);
  interval(0, 10, 20);
  interval(0, 15, 25);
  interval(0, 30, 31);
  interval(1, 18, 28);
  rank->exposed = {seconds(3), seconds(4)};
  std::vector<CommunicationTime> times = rank->communicationTimes();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_DOUBLE_EQ(times[0].inFlight, 16);
  EXPECT_DOUBLE_EQ(times[1].inFlight, 10);
  EXPECT_DOUBLE_EQ(times[2].inFlight, 19);
  EXPECT_DOUBLE_EQ(times[0].exposed, 3);
  EXPECT_DOUBLE_EQ(times[2].exposed, 7);
  rank->resetCounters();
  EXPECT_DOUBLE_EQ(rank->communicationTimes()[2].inFlight, 0);
}

TEST_F(RankTest, NoMoreIsExposedThanIsInFlight) {
  for (int i = 0; i != 20; ++i) {
    // Small: it is complete before its start returns, and the wait comes after.
    ASSERT_TRUE(
        start({OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 4, 4, OPTRT_F32}).ok());
    ASSERT_TRUE(wait(5).ok());
  }
  for (const CommunicationTime &time : rank->communicationTimes())
    EXPECT_LE(time.exposed, time.inFlight);
  EXPECT_GT(rank->communicationTimes()[0].exposed, 0);
}

TEST_F(RankTest, WhoWatchesSeesTheFunctionsCommand) {
  EXPECT_EQ(rank->activity.command.load(), CommandId());
  rank->function = 2;
  ASSERT_TRUE(
      start({OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 4, 4, OPTRT_F32}).ok());
  EXPECT_EQ(rank->activity.command.load(), (CommandId{5, 2}));
  EXPECT_EQ(rank->activity.waitingCommand.load(), (CommandId{5, 2}));
  ASSERT_TRUE(wait(5).ok());
  optrt_launch_desc desc{"layer_norm", 1, 1, 0, 0};
  ASSERT_TRUE(rank->launch(7, desc, hostKernel("norm", nullptr), nullptr).ok());
  EXPECT_EQ(rank->activity.command.load(), (CommandId{7, 2}));
}

TEST_F(RankTest, AFailedCollectiveIsNamed) {
  Status status = start({77, OPTRT_SUM, 0, 0, 1, 4, 4, 4, OPTRT_F32});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 0, command 5 (collective start): unknown kind"));
  status = wait(5);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 0, command 5 (collective wait): "
                        "no collective was started"));
}

struct BadDescriptor {
  const char *name;
  optrt_collective_desc desc;
  const char *message;
};
class RankDescriptors : public RankTest,
                        public testing::WithParamInterface<BadDescriptor> {};

TEST_P(RankDescriptors, AreChecked) {
  Status status = start(GetParam().desc);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Bad, RankDescriptors,
    testing::Values(
        BadDescriptor{"Bytes",
                      {OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, int64_t(1) << 40,
                       int64_t(1) << 40, int64_t(1) << 40, int64_t(1) << 40,
                       OPTRT_F32},
                      "more than 2^63 bytes together"},
        BadDescriptor{
            "Rows",
            {OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 2, 4, INT64_MAX, 4, OPTRT_F32},
            "has rows 9223372036854775807 elements apart, so that 2 "
            "end after more than 2^63"},
        BadDescriptor{"Axis",
                      {OPTRT_BROADCAST, OPTRT_SUM, 2, 0, 1, 4, 4, 4, OPTRT_F32},
                      "mesh axis 2"},
        BadDescriptor{"Root",
                      {OPTRT_BROADCAST, OPTRT_SUM, 0, 1, 1, 4, 4, 4, OPTRT_F32},
                      "root 1"},
        BadDescriptor{"Itself",
                      {OPTRT_SEND, OPTRT_SUM, 0, 0, 1, 4, 4, 4, OPTRT_F32},
                      "is to or from this rank itself"},
        BadDescriptor{"Reduction",
                      {OPTRT_REDUCE, 9, 0, 0, 1, 4, 4, 4, OPTRT_F32},
                      "unknown reduction 9"},
        BadDescriptor{"Size",
                      {OPTRT_REDUCE, OPTRT_SUM, 0, 0, 1, -4, 4, 4, OPTRT_F32},
                      "negative size"},
        BadDescriptor{"Type",
                      {OPTRT_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 4, 4, OPTRT_I32},
                      "adds elements of i32; expected f32, bf16 or f16"},
        BadDescriptor{"UnknownType",
                      {OPTRT_BROADCAST, OPTRT_SUM, 0, 0, 1, 4, 4, 4, 7},
                      "elements of an unknown type 7"},
        BadDescriptor{"Source",
                      {OPTRT_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 3, 4, OPTRT_F32},
                      "source is null or its leading dimension 3"},
        BadDescriptor{"Destination",
                      {OPTRT_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 4, 3, OPTRT_F32},
                      "destination is null or its leading dimension 3"}),
    [](const auto &info) { return info.param.name; });

// A descriptor comes from the compiler: that it is wrong is our fault.
TEST_F(RankTest, AFailingKernelCallNamesItsCommand) {
  device->failsAt = "gemm";
  optrt_gemm_desc desc{};
  Status status =
      rank->gemm(12, desc, values, values, values, nullptr, nullptr);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("rank 0, command 12 (gemm): broken"));
}

TEST_F(RankTest, AFailingKernelIsNamed) {
  device->failsAt = "layer_norm";
  device->failure = unavailable("broken");
  optrt_launch_desc desc{"layer_norm", 1, 1, 0, 0};
  Status status = rank->launch(7, desc, hostKernel("norm", nullptr), nullptr);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("command 7 (layer_norm)"));
}

} // namespace
