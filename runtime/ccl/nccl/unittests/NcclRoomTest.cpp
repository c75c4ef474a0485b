//===- NcclRoomTest.cpp - Collectives that find no room on a fake GPU -----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclMembers.h"

#include <chrono>
#include <future>

using namespace optrt;
using namespace optrt::nccl;

namespace {

/// Two GPUs with two communicators, on queues that nothing orders.
class NcclRoomTest : public NcclMembers {
protected:
  NcclRoomTest() { setenv("OPTIMUS_FAKE_NCCL_ROOM", "1", 1); }
  ~NcclRoomTest() override {
    unsetenv("OPTIMUS_FAKE_NCCL_ROOM");
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  }

  /// Whether all end where each GPU puts a collective of each communicator, the
  /// second GPU in another order if told.
  bool doAllEnd(uint64_t seed, bool isCrossed, std::chrono::seconds patience) {
    optimus_fake_gpu_reset(seed);
    std::vector<Member> pair = join(2, /*numComms=*/2);
    for (int turn = 0; turn != 2; ++turn)
      for (int gpu = 0; gpu != 2; ++gpu)
        put(pair[gpu], isCrossed && gpu == 1 ? 1 - turn : turn);
    std::vector<std::future<Status>> ends;
    for (Member &one : pair)
      ends.push_back(std::async(std::launch::async,
                                [&one] { return one.device->synchronize(); }));
    bool haveEnded = true;
    for (std::future<Status> &end : ends)
      haveEnded &= end.wait_for(patience) == std::future_status::ready;
    // At once: an abort waits for kernels of the other communicator.
    std::vector<std::future<Result>> aborts;
    for (Member &one : pair)
      for (Comm comm : one.comms)
        aborts.push_back(std::async(std::launch::async, [this, comm] {
          return api().commAbort(comm);
        }));
    for (std::future<Status> &end : ends)
      EXPECT_TRUE(end.get().ok());
    return haveEnded;
  }

  static constexpr uint64_t kSeeds = 8;
  static constexpr std::chrono::seconds kLong{60}, kShort{1};
};

TEST_F(NcclRoomTest, KernelsBeginInTheHostsOrder) {
  for (uint64_t seed = 0; seed != kSeeds; ++seed)
    EXPECT_TRUE(doAllEnd(seed, /*isCrossed=*/false, kLong));
}

TEST_F(NcclRoomTest, KernelsInTwoOrdersWaitForRoomForEver) {
  EXPECT_FALSE(doAllEnd(0, /*isCrossed=*/true, kShort));
}

TEST_F(NcclRoomTest, WithoutOrderItIsUpToTheStreams) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  // GPUs agree by chance, but not every time.
  bool doAll = true;
  for (uint64_t seed = 0; doAll && seed != 30 * kSeeds; ++seed)
    doAll = doAllEnd(seed, /*isCrossed=*/false, kShort);
  EXPECT_FALSE(doAll);
}

TEST_F(NcclRoomTest, WithRoomForBothOrdersDoNotMatter) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  setenv("OPTIMUS_FAKE_NCCL_ROOM", "2", 1);
  EXPECT_TRUE(doAllEnd(0, /*isCrossed=*/true, kLong));
}

} // namespace
