//===- HiddenDeviceTest.cpp - The findings of a device with hidden memory -===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Mistakes of a program or of the runtime, made on purpose. That tables have none
// of them is checked before they run: SeededBugsTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "device/hidden/HiddenDevice.h"
#include "device/hidden/unittests/Fault.h"

#include "optimus-runtime/CpuDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace optrt;
using testing::HasSubstr;

namespace {

void addOne(int64_t begin, int64_t end, void *const *args) {
  for (int64_t i = begin; i != end; ++i)
    static_cast<float *>(args[0])[i] += 1;
}
void doubleIt(int64_t begin, int64_t end, void *const *args) {
  for (int64_t i = begin; i != end; ++i)
    static_cast<float *>(args[0])[i] *= 2;
}

/// A device with 16 floats.
class HiddenDeviceTest : public testing::Test {
protected:
  HiddenDeviceTest() { start(0); }

  void start(uint64_t seed) {
    memory = DeviceMemory();
    auto kernels = std::make_unique<CpuDevice>(1);
    ASSERT_TRUE(kernels->start().ok());
    device = std::make_unique<HiddenDevice>(std::move(kernels), seed);
    memory = allocate();
  }
  DeviceMemory allocate() {
    auto allocated = device->allocate(64, "a test");
    EXPECT_TRUE(allocated.ok()) << allocated.status().message();
    return std::move(allocated).value();
  }
  Status launch(Queue queue, optrt_kernel kernel, void *buffer) {
    void *args[] = {buffer};
    return device->launch(queue, {"kernel", 16, 1, 1, 0},
                          hostKernel("kernel", kernel), args);
  }
  float first() {
    float value = 0;
    EXPECT_TRUE(device->read(kCompute, &value, memory.data(), 4).ok());
    EXPECT_TRUE(device->synchronize().ok());
    return value;
  }
  /// Of a command whose turn may have come when it was put on its queue.
  void expectFailure(Status, const char *message) {
    Status status = device->synchronize();
    EXPECT_EQ(status.code(), StatusCode::Internal);
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_TRUE(device->synchronize().ok());
  }
  float *floats() { return reinterpret_cast<float *>(memory.data()); }

  std::unique_ptr<HiddenDevice> device;
  DeviceMemory memory;
};

using HiddenDeviceDeathTest = HiddenDeviceTest;

TEST_F(HiddenDeviceDeathTest, TheHostCannotTouchMemory) {
  EXPECT_EQ(device->hostAddress(memory.data()), nullptr);
  EXPECT_EXIT(memory.data()[0] = 1, endedByFault, kFaultReport);
}

TEST_F(HiddenDeviceDeathTest, KernelsCannotTouchWhatFollowsTheirMemory) {
  auto tooFar = [&] {
    void *args[] = {memory.data()};
    (void)device->launch(kCompute, {"kernel", 17, 17, 1, 0},
                         hostKernel("kernel", addOne), args);
    (void)device->synchronize();
  };
  EXPECT_EXIT(tooFar(), endedByFault, kFaultReport);
}

TEST_F(HiddenDeviceTest, WorkOnHostMemoryIsRefused) {
  float here[16] = {};
  expectFailure(launch(kCompute, addOne, here),
                "touches 1 bytes that are not the device's");
  expectFailure(device->copy(kCompute, {1, 16, 16, 16, 4}, here, floats()),
                "touches 64 bytes that are not the device's");
}

TEST_F(HiddenDeviceTest, MemoryIsThereUntilItsUsersAreDone) {
  Status status;
  // Now and then the launch has its turn in time.
  for (uint64_t seed = 0; status.ok() && seed != 50; ++seed) {
    start(seed);
    {
      DeviceMemory freed = allocate();
      ASSERT_TRUE(launch(kCompute, addOne, freed.data()).ok());
    }
    DeviceMemory another = allocate();
    status = device->synchronize();
  }
  EXPECT_EQ(status.message(),
            "touches 1 bytes that were given back before its turn came");
}

TEST_F(HiddenDeviceTest, RegionsEndWithWhatWasAllocated) {
  expectFailure(device->copy(kCompute, {2, 4, 4, 4, 4}, nullptr, floats() + 12),
                "touches 32 bytes where 16 are left of what was allocated");
  // As many elements of half the size are inside.
  EXPECT_TRUE(
      device->copy(kCompute, {2, 4, 4, 4, 2}, nullptr, floats() + 12).ok());
  EXPECT_TRUE(device->synchronize().ok());
  optrt_gemm_desc gemm{};
  gemm.m = gemm.n = gemm.k = 2;
  gemm.lda = gemm.ldb = gemm.ldc = 2;
  expectFailure(device->gemm(kCompute, gemm, floats(), floats() + 13,
                             floats() + 4, nullptr, nullptr),
                "touches 16 bytes where 12 are left of what was allocated");
  optrt_attention_desc attention{};
  attention.batch = attention.heads = attention.kv_heads = 1;
  attention.seq = attention.head_dim = 2;
  attention.q_ld = attention.kv_ld = 2;
  expectFailure(device->attention(kCompute, attention,
                                  {floats(), floats(), floats(), nullptr,
                                   floats() + 4, floats() + 15, nullptr}),
                "touches 8 bytes where 4 are left of what was allocated");
}

/// What two kernels on two queues make of 0, with or without an edge between
/// them; the results of all seeds.
TEST_F(HiddenDeviceTest, OnlyEdgesOrderQueues) {
  for (bool isOrdered : {true, false}) {
    std::set<float> results;
    for (uint64_t seed = 0; seed != 50; ++seed) {
      start(seed);
      const Queue other = device->queue("axis 0");
      ASSERT_TRUE(launch(kCompute, addOne, memory.data()).ok());
      if (isOrdered) {
        ASSERT_TRUE(device->await(other, device->record(kCompute)).ok());
      }
      ASSERT_TRUE(launch(other, doubleIt, memory.data()).ok());
      ASSERT_TRUE(device->synchronize().ok());
      results.insert(first());
    }
    EXPECT_EQ(results, isOrdered ? std::set<float>{2} : std::set<float>({1, 2}));
  }
}

TEST_F(HiddenDeviceTest, EventsEndWithTheQueues) {
  const Event event = device->record(kCompute);
  EXPECT_TRUE(device->await(kCompute, event).ok());
  EXPECT_TRUE(device->synchronize().ok());
  device->record(kCompute);
  Status status = device->await(kCompute, event);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("event that was not recorded since"));
}

} // namespace
