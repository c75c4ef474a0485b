//===- NcclAbortTest.cpp - How communicators of fake GPUs end -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fake's ncclCommAbort waits as NCCL's does, and ranks end all the same.
//
//===----------------------------------------------------------------------===//

#include "NcclMembers.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>

using namespace optrt;
using namespace optrt::nccl;
using testing::HasSubstr;

namespace {

class FakeAbortTest : public NcclMembers {
protected:
  /// An abort on a thread of its own.
  class Aborting {
  public:
    Aborting(const NcclApi &api, Comm comm)
        : thread([this, &api, comm] {
            api.commAbort(comm);
            hasReturned = true;
          }) {}
    ~Aborting() { thread.join(); }
    /// Whether it waits for something else, as far as a moment tells.
    bool waits() const {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return !hasReturned;
    }

  private:
    std::atomic<bool> hasReturned{false};
    std::thread thread;
  };
};

TEST_F(FakeAbortTest, WaitsForGraphs) {
  std::vector<Member> alone = join(1);
  record(alone[0]);
  Aborting aborting(api(), alone[0].comms[0]);
  EXPECT_TRUE(aborting.waits());
  alone[0].device->discardRecordings();
}

/// The last of a process gives all back, and waits for the graphs of all.
TEST_F(FakeAbortTest, WaitsForGraphsOfAllInTheProcess) {
  std::vector<Member> pair = join(2);
  record(pair[0]);
  { Aborting first(api(), pair[0].comms[0]); }
  Aborting second(api(), pair[1].comms[0]);
  EXPECT_TRUE(second.waits());
  pair[0].device->discardRecordings();
}

/// Memory is given back once the GPU has nothing to do.
TEST_F(FakeAbortTest, WaitsForTheKernelOfAnotherCommunicator) {
  setenv("OPTIMUS_FAKE_NCCL_HANG", "0:1", 1);
  std::vector<Member> idle = join(1), busy = join(1);
  put(busy[0]);
  Aborting first(api(), idle[0].comms[0]);
  EXPECT_TRUE(first.waits());
  Aborting second(api(), busy[0].comms[0]);
}

TEST_F(FakeAbortTest, AGraphThatIsUnderWayEndsAfterItIsDestroyed) {
  std::vector<Member> alone = join(1);
  record(alone[0]);
  EXPECT_TRUE(alone[0].device->replay(0).ok());
  alone[0].device->discardRecordings();
  EXPECT_TRUE(alone[0].device->synchronize().ok());
  Aborting aborting(api(), alone[0].comms[0]);
}

//===----------------------------------------------------------------------===//
// The back-end
//===----------------------------------------------------------------------===//

using NcclAbortTest = NcclTest;

/// In a step that was recorded; all ranks keep their graphs until they end.
TEST_F(NcclAbortTest, ANetworkThatBreaksInAReplayEndsAllRanks) {
  setenv("OPTIMUS_FAKE_NCCL_FAIL", "1:3", 1);
  const optrt_collective_desc desc = describe(OPTRT_ALL_REDUCE, 4);
  const PlannedCollective planned[] = {{7, &desc}};
  Status status = run([&](TestRank &rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           rank.upload(pack({1, 2, 3, 4}, OPTRT_F32)));
    OPTRT_RETURN_IF_ERROR(rank.device->beginRecording());
    Status put = rank.put(desc, memory.data(), memory.data());
    OPTRT_ASSIGN_OR_RETURN(uint32_t recording, rank.device->endRecording());
    OPTRT_RETURN_IF_ERROR(put);
    for (int call = 0; call != 5; ++call) {
      rank.collectives->beginCall(0, planned);
      OPTRT_RETURN_IF_ERROR(rank.device->replay(recording));
      OPTRT_RETURN_IF_ERROR(rank.end());
    }
    return okStatus();
  });
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1, command 7, collective 3 on mesh axis ring: "));
}

} // namespace
