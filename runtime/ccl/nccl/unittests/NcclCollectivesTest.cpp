//===- NcclCollectivesTest.cpp - Collectives between fake GPUs ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The back-end on the fake NCCL and the fake driver: ranks are threads, each
// with a GPU.
//
//===----------------------------------------------------------------------===//

#include "NcclFixture.h"

#include "optimus-support/ElementType.h"

#include <algorithm>
#include <gmock/gmock.h>

using namespace optrt;
using namespace optimus_support;
using testing::HasSubstr;

namespace {

constexpr int kRanks = NcclTest::kRanks;
using NcclCollectivesTest = NcclTest;

//===----------------------------------------------------------------------===//
// What each kind does
//===----------------------------------------------------------------------===//

class Kinds : public NcclCollectivesTest,
              public testing::WithParamInterface<std::tuple<int, int, int>> {
protected:
  static constexpr int64_t kCount = 700;

  static float sent(int rank, int64_t i) { return float(i % 13 * 3 + rank); }

  /// What a rank is to have in its memory afterwards, where -1 was.
  static std::vector<float> expected(int kind, int rank, bool isMaximum) {
    std::vector<float> result;
    auto reduced = [&](int64_t i) {
      float value = sent(0, i);
      for (int other = 1; other != kRanks; ++other)
        value = isMaximum ? std::max(value, sent(other, i))
                          : value + sent(other, i);
      return value;
    };
    const int64_t count = kind == OPTRT_ALL_GATHER ? kRanks * kCount : kCount;
    for (int64_t i = 0; i != count; ++i)
      switch (kind) {
      case OPTRT_BROADCAST:
        result.push_back(sent(1, i));
        break;
      case OPTRT_ALL_GATHER:
        result.push_back(sent(int(i / kCount), i % kCount));
        break;
      case OPTRT_REDUCE:
        result.push_back(rank == 1 ? reduced(i) : -1);
        break;
      case OPTRT_REDUCE_SCATTER:
        result.push_back(reduced(rank * kCount + i));
        break;
      default:
        result.push_back(reduced(i));
      }
    return result;
  }
};

TEST_P(Kinds, GivesEachRankItsPart) {
  const auto [kind, type, reduction] = GetParam();
  optrt_collective_desc desc = describe(kind, kCount, type);
  desc.reduction = reduction;
  // Rows without gaps are one stretch.
  if (kind != OPTRT_ALL_GATHER && kind != OPTRT_REDUCE_SCATTER)
    desc.outer = 7, desc.inner = desc.src_ld = desc.dst_ld = kCount / 7;
  const PlannedCollective planned[] = {{0, &desc}};
  Status status = run([&, kind = kind, type = type,
                       reduction = reduction](TestRank &rank) -> Status {
    std::vector<float> values;
    for (int64_t i = 0; i != kRanks * kCount; ++i)
      values.push_back(sent(rank.index, i));
    const std::vector<float> wanted =
        expected(kind, rank.index, reduction == OPTRT_MAX);
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory src, rank.upload(pack(values, type)));
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory dst,
        rank.upload(pack(std::vector<float>(wanted.size(), -1), type)));
    rank.collectives->beginCall(0, planned);
    OPTRT_RETURN_IF_ERROR(rank.put(desc, src.data(), dst.data()));
    OPTRT_RETURN_IF_ERROR(rank.end());
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(dst));
    EXPECT_EQ(found, pack(wanted, type)) << "rank " << rank.index;
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, Kinds,
    testing::Combine(testing::Range(0, 5),
                     testing::Values(OPTRT_F32, OPTRT_BF16, OPTRT_F16),
                     testing::Values(OPTRT_SUM, OPTRT_MAX)),
    [](const auto &info) {
      return concat(collectiveName(std::get<0>(info.param)), "_",
                    toString(ElementType(std::get<1>(info.param))),
                    std::get<2>(info.param) == OPTRT_MAX ? "_max" : "_sum");
    });

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The fake takes 1 MiB to join and 4 MiB with the first collective.
TEST_F(NcclCollectivesTest, WhatNcclTakesOfTheGpuIsCounted) {
  const optrt_collective_desc desc = describe(OPTRT_ALL_REDUCE, 4);
  const PlannedCollective planned[] = {{0, &desc}};
  Status status = run([&](TestRank &rank) -> Status {
    EXPECT_EQ(rank.collectives->heldBytes(), 1 << 20);
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack({1, 2, 3, 4}, OPTRT_F32)));
    for (int call = 0; call != 3; ++call) {
      rank.collectives->beginCall(0, planned);
      OPTRT_RETURN_IF_ERROR(rank.put(desc, memory.data(), memory.data()));
      OPTRT_RETURN_IF_ERROR(rank.end());
      EXPECT_EQ(rank.collectives->heldBytes(), 5 << 20);
    }
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

//===----------------------------------------------------------------------===//
// Recorded
//===----------------------------------------------------------------------===//

TEST_F(NcclCollectivesTest, WhatIsRecordedIsDoneAgain) {
  const optrt_collective_desc desc = describe(OPTRT_ALL_REDUCE, 4);
  const PlannedCollective planned[] = {{0, &desc}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        rank.upload(pack({1, 2, 3, float(rank.index)}, OPTRT_F32)));
    OPTRT_RETURN_IF_ERROR(rank.device->beginRecording());
    Status put = rank.put(desc, memory.data(), memory.data());
    OPTRT_ASSIGN_OR_RETURN(uint32_t recording, rank.device->endRecording());
    OPTRT_RETURN_IF_ERROR(put);
    for (int i = 0; i != 3; ++i) {
      rank.collectives->beginCall(0, planned);
      OPTRT_RETURN_IF_ERROR(rank.device->replay(recording));
      OPTRT_RETURN_IF_ERROR(rank.end());
    }
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(memory));
    EXPECT_EQ(found, pack({27, 54, 81, 27}, OPTRT_F32));
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

//===----------------------------------------------------------------------===//
// Mistakes and faults
//===----------------------------------------------------------------------===//

/// Two collectives, on one rank in the other order.
TEST_F(NcclCollectivesTest, AnotherOrderOnOneRankIsTold) {
  const optrt_collective_desc sum = describe(OPTRT_ALL_REDUCE, 4),
                              broadcast = describe(OPTRT_BROADCAST, 4);
  const PlannedCollective planned[] = {{0, &sum}, {1, &broadcast}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack({1, 2, 3, 4}, OPTRT_F32)));
    rank.collectives->beginCall(0, planned);
    const bool isOther = rank.index == 2;
    for (const auto &desc :
         {isOther ? broadcast : sum, isOther ? sum : broadcast})
      OPTRT_RETURN_IF_ERROR(rank.put(desc, memory.data(), memory.data()));
    return rank.end();
  });
  EXPECT_THAT(
      status.message(),
      HasSubstr("ranks of an NCCL communicator differ in collective 1"));
  EXPECT_THAT(status.message(), HasSubstr(" has all_reduce of 4 elements"));
  EXPECT_THAT(status.message(), HasSubstr("rank 2 has broadcast of 4"));
}

TEST_F(NcclCollectivesTest, RowsApartAreRefused) {
  optrt_collective_desc gather = describe(OPTRT_ALL_GATHER, 2);
  gather.outer = 2;
  gather.dst_ld = kRanks * 2;
  const PlannedCollective planned[] = {{0, &gather}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(std::string(64, 0)));
    rank.collectives->beginCall(0, planned);
    return rank.put(gather, memory.data(), memory.data());
  });
  EXPECT_THAT(status.message(),
              HasSubstr(", command 0, collective 1 on mesh axis ring: NCCL "
                        "moves one "
                        "stretch of memory; found 2 rows of 2"));
}

/// Ten all-reduces, in calls of two.
Status reduceTenTimes(TestRank &rank) {
  const optrt_collective_desc desc = describe(OPTRT_ALL_REDUCE, 4);
  const PlannedCollective planned[] = {{3, &desc}, {5, &desc}};
  OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                         rank.upload(pack({1, 2, 3, 4}, OPTRT_F32)));
  for (int call = 0; call != 5; ++call) {
    rank.collectives->beginCall(0, planned);
    for (int i = 0; i != 2; ++i)
      OPTRT_RETURN_IF_ERROR(rank.put(desc, memory.data(), memory.data()));
    OPTRT_RETURN_IF_ERROR(rank.end());
  }
  return okStatus();
}

TEST_F(NcclCollectivesTest, ANetworkThatBreaksEndsAllRanks) {
  setenv("OPTIMUS_FAKE_NCCL_FAIL", "1:6", 1);
  Status status = run(reduceTenTimes);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1, command 5, collective 6 on mesh axis ring: "));
  EXPECT_THAT(status.message(),
              HasSubstr("(the network of this fake GPU is broken)"));
}

TEST_F(NcclCollectivesTest, ARankThatFailsLetsNoOtherWait) {
  Status status = run([&](TestRank &rank) -> Status {
    if (rank.index == 2)
      return unavailable("something else");
    return reduceTenTimes(rank);
  });
  EXPECT_EQ(status.message(), "something else");
}

TEST_F(NcclCollectivesTest, WhoDoesNotJoinIsNotWaitedForForEver) {
  setenv("OPTIMUS_FAKE_NCCL_ABSENT", "1", 1);
  Status status = run(reduceTenTimes, /*timeoutSeconds=*/0.2);
  EXPECT_THAT(status.message(),
              HasSubstr("does not join ranks 0, 1, 2 on mesh axis ring: NCCL's "
                        "ncclCommInitRankConfig has not come to an end for "
                        "0.2 s (--timeout)"));
}

/// Two ranks of one GPU are NCCL's to refuse.
TEST_F(NcclCollectivesTest, RanksThatShareAGpuAreRefused) {
  World world{createLocalControl(), createNcclCollectives()};
  ASSERT_TRUE(world.layOut(optimus_support::Mesh({{"pair", 2}})).ok());
  auto join = [&](int index) -> Status {
    OPTRT_ASSIGN_OR_RETURN(auto device, cuda::CudaDevice::create(0));
    return world.collectives->connect(index, *device, 60).status();
  };
  Status second;
  std::thread other([&] { second = join(1); });
  const Status first = join(0);
  other.join();
  for (const Status &status : {first, second})
    EXPECT_THAT(status.message(), HasSubstr("Duplicate GPU detected"));
}

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

/// What watches ranks sees how far GPUs are, whatever the host has put on
/// queues.
TEST_F(NcclCollectivesTest, ActivityIsThatOfTheGpu) {
  World world{createLocalControl(), createNcclCollectives()};
  ASSERT_TRUE(world.layOut(optimus_support::Mesh({{"ring", 1}})).ok());
  const RankActivity &activity = world.control->activity(0);
  auto device = cuda::CudaDevice::create();
  ASSERT_TRUE(device.ok());
  setenv("OPTIMUS_FAKE_NCCL_HANG", "0:4", 1);
  auto collectives = world.collectives->connect(0, **device, 60);
  ASSERT_TRUE(collectives.ok()) << collectives.status().message();
  const optrt_collective_desc desc = describe(OPTRT_ALL_REDUCE, 4);
  const PlannedCollective planned[] = {{10, &desc}, {11, &desc}, {12, &desc}};
  auto memory = (*device)->allocate(16, "a test");
  ASSERT_TRUE(memory.ok());
  optrt_collective_desc alone = desc;
  alone.root = 0;
  auto callOnce = [&]() -> Status {
    (*collectives)->beginCall(0, planned);
    for (uint32_t i = 0; i != 3; ++i) {
      const QueuedCollective one{10 + i, &alone, memory->data(),
                                 memory->data()};
      OPTRT_RETURN_IF_ERROR((*collectives)->enqueue(kCompute, {&one, 1}));
    }
    Status status = (*device)->synchronize();
    Status communicated = (*collectives)->endCall();
    return communicated.ok() ? status : communicated;
  };
  ASSERT_TRUE(callOnce().ok());
  EXPECT_EQ(activity.started[0], 3u);
  EXPECT_EQ(activity.since, 0);
  Status second;
  std::thread thread([&] { second = callOnce(); });
  while (activity.since == 0)
    std::this_thread::yield();
  EXPECT_EQ(activity.started[0], 4u);
  EXPECT_EQ(activity.waitingSequence, 4u);
  EXPECT_EQ(activity.waitingAxis, 0);
  EXPECT_EQ(activity.waitingCommand.load(), (CommandId{10, 0}));
  world.collectives->abort(unavailable("a test"));
  thread.join();
  EXPECT_THAT(second.message(), HasSubstr("another rank has failed"));
}

} // namespace
