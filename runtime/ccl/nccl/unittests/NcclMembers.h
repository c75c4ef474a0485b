//===- NcclMembers.h - Members of a fake NCCL's communicators ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLMEMBERS_H
#define OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLMEMBERS_H

#include "NcclFixture.h"
#include "NcclLibrary.h"

namespace optrt::nccl {

/// Members of communicators, which call NCCL themselves.
class NcclMembers : public NcclTest {
protected:
  NcclMembers() {
    auto opened = NcclLibrary::open();
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    library = *opened;
  }

  /// A GPU, with a queue for each of its communicators.
  struct Member {
    std::unique_ptr<cuda::CudaDevice> device;
    std::vector<Comm> comms;
    DeviceMemory memory;
  };

  /// One member a GPU, from the first, of so many communicators.
  std::vector<Member> join(int size, int numComms = 1) {
    std::vector<Member> members(size);
    for (int index = 0; index != size; ++index) {
      members[index].device = std::move(*cuda::CudaDevice::create(index));
      members[index].memory =
          std::move(*members[index].device->allocate(16 * numComms, "a test"));
    }
    for (int number = 0; number != numComms; ++number)
      join(members);
    return members;
  }

  /// The communicator's number, on a queue of that number.
  void put(Member &one, int number = 0) {
    float *at = reinterpret_cast<float *>(one.memory.data()) + 4 * number;
    const Queue queue = one.device->queue(concat("axis ", number));
    EXPECT_EQ(api().allReduce(at, at, 4, kF32, kSum, one.comms[number],
                              one.device->nativeQueue(queue)),
              kInProgress);
  }
  void record(Member &one) {
    (void)one.device->queue("axis 0");
    EXPECT_TRUE(one.device->beginRecording().ok());
    put(one);
    EXPECT_TRUE(one.device->endRecording().ok());
  }

  const NcclApi &api() const { return library->api(); }

private:
  void join(std::vector<Member> &members) {
    UniqueId id;
    EXPECT_EQ(api().getUniqueId(&id), kSuccess);
    Config config;
    for (int index = 0; index != int(members.size()); ++index) {
      Comm &comm = members[index].comms.emplace_back();
      (void)members[index].device->nativeQueue(kCompute);
      EXPECT_EQ(api().commInitRankConfig(&comm, int(members.size()), id, index,
                                         &config),
                kInProgress);
    }
    for (Member &one : members) {
      Result state = kInProgress;
      EXPECT_EQ(api().commGetAsyncError(one.comms.back(), &state), kSuccess);
      EXPECT_EQ(state, kSuccess);
    }
  }

  const NcclLibrary *library;
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLMEMBERS_H
