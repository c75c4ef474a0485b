//===- NcclGroupsTest.cpp - Sends, exchanges, and what starts together ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclFixture.h"

#include <gmock/gmock.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

constexpr int kMembers = 4;
constexpr int64_t kPart = 5;

class NcclGroupsBase : public NcclTest {
protected:
  NcclGroupsBase() : NcclTest(kMembers) {}

  /// What a rank has at first, in parts for each rank.
  static std::vector<float> sentBy(int rank, int64_t parts) {
    std::vector<float> values;
    for (int64_t i = 0; i != parts * kPart; ++i)
      values.push_back(float(100 * rank + i));
    return values;
  }
  static optrt_collective_desc message(int32_t kind, int peer,
                                       int32_t type = OPTRT_F32) {
    optrt_collective_desc desc = describe(kind, kPart, type);
    desc.root = peer;
    return desc;
  }
};

/// Each sends to the next, all at once: one by one they would wait for each
/// other.
struct Ring {
  explicit Ring(int rank, int32_t type = OPTRT_F32)
      : before((rank + kMembers - 1) % kMembers),
        descs{{OPTRT_SEND, OPTRT_SUM, 0, (rank + 1) % kMembers, 1, kPart, kPart,
               kPart, type},
              {OPTRT_RECEIVE, OPTRT_SUM, 0, before, 1, kPart, kPart, kPart,
               type}} {}

  Status put(TestRank &rank, const void *src, void *dst) const {
    const QueuedCollective together[] = {{7, &descs[0], src, nullptr},
                                         {8, &descs[1], nullptr, dst}};
    return rank.put(together);
  }

  const int before;
  const optrt_collective_desc descs[2];
  const PlannedCollective planned[2] = {{7, &descs[0]}, {8, &descs[1]}};
};

/// Of every type of elements.
class NcclGroupsTest : public NcclGroupsBase,
                       public testing::WithParamInterface<int32_t> {};

TEST_P(NcclGroupsTest, ARingSendsAndReceivesAtOnce) {
  const int32_t type = GetParam();
  Status status = run([&](TestRank &rank) -> Status {
    const Ring ring(rank.index, type);
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory src,
                           rank.upload(pack(sentBy(rank.index, 1), type)));
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory dst,
        rank.upload(pack(std::vector<float>(kPart, -1), type)));
    rank.collectives->beginCall(0, ring.planned);
    OPTRT_RETURN_IF_ERROR(ring.put(rank, src.data(), dst.data()));
    OPTRT_RETURN_IF_ERROR(rank.end());
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(dst));
    EXPECT_EQ(found, pack(sentBy(ring.before, 1), type));
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(NcclGroupsTest, AllToAllGivesEachRankItsBlocks) {
  const int32_t type = GetParam();
  optrt_collective_desc desc = describe(OPTRT_ALL_TO_ALL, kPart, type);
  desc.src_ld = desc.dst_ld = kMembers * kPart;
  const PlannedCollective planned[] = {{0, &desc}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory src,
        rank.upload(pack(sentBy(rank.index, kMembers), type)));
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory dst,
        rank.upload(pack(std::vector<float>(kMembers * kPart, -1), type)));
    rank.collectives->beginCall(0, planned);
    OPTRT_RETURN_IF_ERROR(rank.put(desc, src.data(), dst.data()));
    OPTRT_RETURN_IF_ERROR(rank.end());
    std::vector<float> wanted;
    for (int other = 0; other != kMembers; ++other) {
      const std::vector<float> all = sentBy(other, kMembers);
      wanted.insert(wanted.end(), all.begin() + rank.index * kPart,
                    all.begin() + (rank.index + 1) * kPart);
    }
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(dst));
    EXPECT_EQ(found, pack(wanted, type)) << "rank " << rank.index;
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(All, NcclGroupsTest,
                         testing::Values(OPTRT_F32, OPTRT_BF16, OPTRT_F16));

using NcclGroupsOfF32 = NcclGroupsBase;

/// A row of ranks: each but the first receives, and then each but the last
/// sends on.
TEST_F(NcclGroupsOfF32, AMessageIsPassedOn) {
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack(sentBy(rank.index, 1), OPTRT_F32)));
    const auto receive = message(OPTRT_RECEIVE, rank.index - 1),
               send = message(OPTRT_SEND, rank.index + 1);
    std::vector<PlannedCollective> planned;
    if (rank.index != 0)
      planned.push_back({0, &receive});
    if (rank.index != kMembers - 1)
      planned.push_back({1, &send});
    rank.collectives->beginCall(0, planned);
    for (const PlannedCollective &one : planned)
      OPTRT_RETURN_IF_ERROR(one.desc == &receive
                                ? rank.put(receive, nullptr, memory.data())
                                : rank.put(send, memory.data(), nullptr));
    OPTRT_RETURN_IF_ERROR(rank.end());
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(memory));
    EXPECT_EQ(found, pack(sentBy(0, 1), OPTRT_F32));
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// Reductions to each rank, which differ in their roots.
TEST_F(NcclGroupsOfF32, CollectivesStartTogether) {
  std::vector<optrt_collective_desc> descs;
  for (int root = 0; root != kMembers; ++root)
    descs.push_back(message(OPTRT_REDUCE, root));
  std::vector<PlannedCollective> planned;
  for (uint32_t i = 0; i != kMembers; ++i)
    planned.push_back({i, &descs[i]});
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory src,
        rank.upload(pack(sentBy(rank.index, kMembers), OPTRT_F32)));
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory dst,
        rank.upload(pack(std::vector<float>(kPart, -1), OPTRT_F32)));
    rank.collectives->beginCall(0, planned);
    std::vector<QueuedCollective> together;
    for (uint32_t i = 0; i != kMembers; ++i)
      together.push_back({i, &descs[i], src.data() + i * kPart * 4,
                          int(i) == rank.index ? dst.data() : nullptr});
    OPTRT_RETURN_IF_ERROR(rank.put(together));
    OPTRT_RETURN_IF_ERROR(rank.end());
    std::vector<float> wanted;
    for (int64_t i = 0; i != kPart; ++i)
      wanted.push_back(600 + kMembers * float(rank.index * kPart + i));
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(dst));
    EXPECT_EQ(found, pack(wanted, OPTRT_F32));
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(NcclGroupsOfF32, AreRecordedAndReplayed) {
  Status status = run([&](TestRank &rank) -> Status {
    const Ring ring(rank.index);
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory a,
                           rank.upload(pack(sentBy(rank.index, 1), OPTRT_F32)));
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory b,
                           rank.upload(pack(sentBy(0, 1), OPTRT_F32)));
    const optrt_copy_desc copy{1, kPart, kPart, kPart, 4};
    OPTRT_RETURN_IF_ERROR(rank.device->beginRecording());
    Status put = ring.put(rank, a.data(), b.data());
    if (put.ok())
      put = rank.device->copy(kCompute, copy, b.data(), a.data());
    OPTRT_ASSIGN_OR_RETURN(uint32_t recording, rank.device->endRecording());
    OPTRT_RETURN_IF_ERROR(put);
    for (int i = 0; i != 3; ++i) {
      rank.collectives->beginCall(0, ring.planned);
      OPTRT_RETURN_IF_ERROR(rank.device->replay(recording));
      OPTRT_RETURN_IF_ERROR(rank.end());
    }
    OPTRT_ASSIGN_OR_RETURN(std::string found, rank.download(a));
    // Three of four steps around the ring.
    EXPECT_EQ(found, pack(sentBy((rank.index + 1) % kMembers, 1), OPTRT_F32));
    return okStatus();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

//===----------------------------------------------------------------------===//
// Mistakes and faults
//===----------------------------------------------------------------------===//

using NcclGroupMistakes = NcclGroupsBase;

TEST_F(NcclGroupMistakes, AnotherCountIsTold) {
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack(sentBy(0, 2), OPTRT_F32)));
    Ring ring(rank.index);
    optrt_collective_desc send = ring.descs[0];
    if (rank.index == 2)
      send.inner = 2;
    const QueuedCollective together[] = {
        {7, &send, memory.data(), nullptr},
        {8, &ring.descs[1], nullptr, memory.data() + kPart * 4}};
    rank.collectives->beginCall(0, ring.planned);
    OPTRT_RETURN_IF_ERROR(rank.put(together));
    return rank.end();
  });
  EXPECT_THAT(status.message(),
              HasSubstr("rank 2 of an NCCL communicator sends 2 elements of "
                        "type 0 to rank 3, which expects 5 of type 0"));
}

TEST_F(NcclGroupMistakes, RowsApartAreRefusedByTheirCommand) {
  optrt_collective_desc sum = describe(OPTRT_ALL_REDUCE, kPart),
                        exchange = describe(OPTRT_ALL_TO_ALL, 1);
  exchange.outer = 2;
  const PlannedCollective planned[] = {{0, &sum}, {4, &exchange}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(std::string(256, 0)));
    const QueuedCollective together[] = {
        {0, &sum, memory.data(), memory.data()},
        {4, &exchange, memory.data() + 64, memory.data() + 128}};
    rank.collectives->beginCall(0, planned);
    return rank.put(together);
  });
  EXPECT_THAT(status.message(),
              HasSubstr(", command 4, collective 2 on mesh axis ring: NCCL "
                        "moves one stretch of memory; found 2 rows of 1"));
}

/// The second of the third group's.
TEST_F(NcclGroupMistakes, AGroupThatFailsIsNamedByItsFirst) {
  setenv("OPTIMUS_FAKE_NCCL_FAIL", "1:6", 1);
  Status status = run([&](TestRank &rank) -> Status {
    const Ring ring(rank.index);
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack(sentBy(0, 2), OPTRT_F32)));
    for (int call = 0; call != 4; ++call) {
      rank.collectives->beginCall(0, ring.planned);
      OPTRT_RETURN_IF_ERROR(
          ring.put(rank, memory.data(), memory.data() + kPart * 4));
      OPTRT_RETURN_IF_ERROR(rank.end());
    }
    return okStatus();
  });
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1, command 7, collective 5 on mesh axis ring: "));
  EXPECT_THAT(status.message(),
              HasSubstr("(the network of this fake GPU is broken)"));
}

} // namespace
