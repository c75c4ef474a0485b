//===- CudaDeviceTest.cpp - The device, on a fake GPU ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "device/hidden/unittests/Fault.h"

using namespace optrt;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

using CudaDeviceTest = FakeGpuTest;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(CudaDeviceTest, MemoryIsZeroedAndAligned) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
  EXPECT_THAT(read(memory.data(), 16), Each(0));
}

using CudaDeviceDeathTest = CudaDeviceTest;
TEST_F(CudaDeviceDeathTest, HostCodeCannotTouchTheDevicesMemory) {
  EXPECT_EQ(device->hostAddress(memory.data()), nullptr);
  EXPECT_EXIT(memory.data()[0] = 1, endedByFault,
              "host code touches the device's memory; the last that was put on "
              "a stream is a memset on stream 0");
}

TEST_F(CudaDeviceTest, EverythingIsGivenBack) {
  memory = {};
  device.reset();
  EXPECT_EQ(optimus_fake_gpu_counts().allocations, 0);
}

TEST_F(CudaDeviceTest, RowsAreCopiedAndCleared) {
  std::vector<float> source(35);
  for (size_t i = 0; i != source.size(); ++i)
    source[i] = float(i);
  DeviceMemory from = upload(source), to = upload(std::vector<float>(30, -1));
  // 5 rows of 3: 7 apart there, 6 apart here.
  ASSERT_TRUE(
      device->copy(kCompute, {5, 3, 7, 6, 4}, from.data(), to.data()).ok());
  std::vector<float> found = read(to.data(), 30);
  for (int i = 0; i != 30; ++i)
    EXPECT_EQ(found[i], i % 6 < 3 ? float(i / 6 * 7 + i % 6) : -1) << i;
  ASSERT_TRUE(device->copy(kCompute, {5, 2, 0, 6, 4}, nullptr, to.data()).ok());
  found = read(to.data(), 30);
  for (int i = 0; i != 30; ++i)
    EXPECT_EQ(found[i] == 0, i % 6 < 2) << i;
}

TEST_F(CudaDeviceTest, CopiesThatCannotBeRightAreRefused) {
  Status status =
      device->copy(kCompute, {2, 4, 3, 4, 4}, memory.data(), memory.data());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  status = device->copy(kCompute, {2, 1, int64_t(1) << 30, 1, 4}, memory.data(),
                        memory.data());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("at most 2147483647 apart"));
}

TEST_F(CudaDeviceTest, CopiesToTheHostAreCountedAndTimed) {
  auto host = device->allocateOnHost(64, "a test");
  ASSERT_TRUE(host.ok()) << host.status().message();
  ASSERT_TRUE(addTo(kCompute, memory.data(), 3).ok());
  const Queue out = device->queue("copies out");
  const int64_t before = steadyNanoseconds();
  ASSERT_TRUE(device->await(out, device->record(kCompute)).ok());
  ASSERT_TRUE(
      device->copy(out, {1, 16, 16, 16, 4}, memory.data(), host->data()).ok());
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ(reinterpret_cast<const float *>(host->data())[15], 3);
  Transfers transfers = device->takeTransfers();
  EXPECT_EQ(transfers.bytesOut, 64);
  EXPECT_EQ(transfers.bytesIn, 0);
  ASSERT_EQ(transfers.times.size(), 1u);
  EXPECT_LE(before, transfers.times[0].begin + 1000);
  EXPECT_LE(transfers.times[0].begin, transfers.times[0].end);
  EXPECT_LE(transfers.times[0].end, steadyNanoseconds());
  EXPECT_EQ(device->takeTransfers().bytesOut, 0);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// RaceCheckTest has what becomes of them without one.
TEST_F(CudaDeviceTest, EdgesOrderQueues) {
  for (uint64_t seed = 0; seed != 20; ++seed) {
    start(seed);
    const Queue other = device->queue("axis 0");
    ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
    ASSERT_TRUE(device->await(other, device->record(kCompute)).ok());
    ASSERT_TRUE(doubleAll(other, memory.data()).ok());
    ASSERT_TRUE(device->await(kCompute, device->record(other)).ok());
    EXPECT_EQ(read(memory.data(), 1)[0], 2);
  }
}

TEST_F(CudaDeviceTest, EventsAreThoseSinceTheQueuesWereEmpty) {
  Event event = device->record(kCompute);
  ASSERT_TRUE(device->await(kCompute, event).ok());
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ(device->await(kCompute, event).code(), StatusCode::Internal);
}

TEST_F(CudaDeviceTest, HostCodeRunsInTheQueuesOrder) {
  for (uint64_t seed = 0; seed != 20; ++seed) {
    start(seed);
    const Queue other = device->queue("axis 0");
    ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
    ASSERT_TRUE(device->await(other, device->record(kCompute)).ok());
    float value = 0;
    ASSERT_TRUE(device->read(other, &value, memory.data(), 4).ok());
    Status status = device->call(
        other, [&] { return invalidArgument(concat("broken at ", value)); });
    EXPECT_EQ(status.message(), "broken at 1");
    EXPECT_TRUE(device->synchronize().ok());
  }
}

TEST_F(CudaDeviceTest, CommandsAreTimed) {
  CommandTimes times[2];
  const int64_t before = steadyNanoseconds();
  for (CommandTimes &one : times) {
    ASSERT_TRUE(device->timestamp(kCompute, one.begin).ok());
    ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
    ASSERT_TRUE(device->timestamp(kCompute, one.end).ok());
  }
  ASSERT_TRUE(device->synchronize().ok());
  const int64_t after = steadyNanoseconds();
  // Events know their times to about a microsecond.
  EXPECT_LE(before, times[0].begin + 1000);
  EXPECT_LT(times[0].begin, times[0].end);
  EXPECT_LE(times[0].end, times[1].begin);
  EXPECT_LE(times[1].end, after + 1000);
}

TEST_F(CudaDeviceTest, EachReplayWritesItsTimes) {
  CommandTimes times;
  ASSERT_TRUE(device->beginRecording().ok());
  ASSERT_TRUE(device->timestamp(kCompute, times.begin).ok());
  ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
  ASSERT_TRUE(device->timestamp(kCompute, times.end).ok());
  auto recording = device->endRecording();
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ(times.begin, 0) << "nothing was done so far";
  for (int i = 0; i != 3; ++i) {
    const int64_t before = steadyNanoseconds();
    ASSERT_TRUE(device->replay(*recording).ok());
    ASSERT_TRUE(device->synchronize().ok());
    EXPECT_LE(before, times.begin + 1000);
    EXPECT_LT(times.begin, times.end);
    EXPECT_LE(times.end, steadyNanoseconds() + 1000);
  }
}

TEST_F(CudaDeviceTest, CopiesOfEachReplayAreCounted) {
  auto host = device->allocateOnHost(8, "a test");
  ASSERT_TRUE(host.ok());
  const optrt_copy_desc desc{1, 2, 2, 2, 4};
  ASSERT_TRUE(device->beginRecording().ok());
  ASSERT_TRUE(device->copy(kCompute, desc, memory.data(), host->data()).ok());
  ASSERT_TRUE(device->copy(kCompute, desc, host->data(), memory.data()).ok());
  auto recording = device->endRecording();
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  EXPECT_EQ(device->takeTransfers().bytesIn, 0);
  for (int i = 0; i != 2; ++i) {
    ASSERT_TRUE(device->replay(*recording).ok());
    ASSERT_TRUE(device->synchronize().ok());
    const Transfers transfers = device->takeTransfers();
    EXPECT_EQ(transfers.bytesIn, 8);
    EXPECT_EQ(transfers.bytesOut, 8);
    ASSERT_EQ(transfers.times.size(), 2u);
    EXPECT_LT(transfers.times[0].begin, transfers.times[0].end);
    EXPECT_LE(transfers.times[0].end, transfers.times[1].begin);
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

TEST_F(CudaDeviceTest, KernelsDoAllIterations) {
  // The largest needs more blocks than the fake GPU holds four times.
  for (int64_t extent : {0, 1, 31, 1000, 10000}) {
    start(uint64_t(extent), 10001);
    ASSERT_TRUE(addTo(kCompute, memory.data(), 2, extent).ok());
    std::vector<float> found = read(memory.data(), 10001);
    for (int64_t i = 0; i != 10001; ++i)
      ASSERT_EQ(found[i], i < extent ? 2 : 0) << i << " of " << extent;
  }
}

TEST_F(CudaDeviceTest, WhatIsNotPreparedIsNotLaunched) {
  const optimus_kernel other = add;
  void *args[] = {memory.data()};
  Status status = device->launch(kCompute, {"add", 1, 1, 1, 0}, other, args);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'add'"));
}

TEST_F(CudaDeviceTest, ImagesAreForTheGpu) {
  const optimus_image images[] = {{"sm_90", nullptr, 0}, {"ptx", nullptr, 0}};
  const optimus_kernel other = add;
  Workload workload;
  workload.kernels = {&other};
  workload.images = images;
  Status status = device->prepare(workload);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.message(),
            "expected kernels for emulated, the architecture of Optimus's fake "
            "GPU; found sm_90, ptx. Compile the model with --gpu-arch "
            "emulated");
}

TEST_F(CudaDeviceTest, AFunctionThatTheImageLacksIsNamed) {
  const optimus_kernel other{"norm", nullptr, 0, "norm_4", 32, 32};
  Workload workload;
  workload.kernels = {&other};
  workload.images = {&image, 1};
  EXPECT_THAT(device->prepare(workload).message(),
              HasSubstr("the kernel norm, norm_4 of the image for emulated: "
                        "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"));
}

TEST_F(CudaDeviceTest, AttentionThatWasNotPreparedIsRefused) {
  Status status =
      device->attention(kCompute, optrt_attention_desc{}, AttentionOperands{});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              HasSubstr("an attention, of which prepare() was told nothing"));
}

//===----------------------------------------------------------------------===//
// Repetition
//===----------------------------------------------------------------------===//

TEST_F(CudaDeviceTest, WhatIsRecordedIsRepeated) {
  for (uint64_t seed = 0; seed != 20; ++seed) {
    start(seed);
    const Queue other = device->queue("copies in");
    ASSERT_TRUE(device->beginRecording().ok());
    ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
    ASSERT_TRUE(device->await(other, device->record(kCompute)).ok());
    ASSERT_TRUE(doubleAll(other, memory.data()).ok());
    auto recording = device->endRecording();
    ASSERT_TRUE(recording.ok()) << recording.status().message();
    EXPECT_EQ(read(memory.data(), 1)[0], 0) << "recording does nothing";
    for (int i = 0; i != 3; ++i)
      ASSERT_TRUE(device->replay(*recording).ok());
    // ((0 + 1) * 2 + 1) * 2 + 1) * 2
    EXPECT_EQ(read(memory.data(), 1)[0], 14);
  }
}

TEST_F(CudaDeviceTest, NothingIsAllocatedOrAwaitedWhileItIsRecorded) {
  ASSERT_TRUE(device->beginRecording().ok());
  EXPECT_THAT(device->allocate(64, "a test").status().message(),
              HasSubstr("while a stream is captured"));
  EXPECT_THAT(device->endRecording().status().message(),
              HasSubstr("CAPTURE_INVALIDATED"));
  ASSERT_TRUE(device->beginRecording().ok());
  EXPECT_FALSE(device->synchronize().ok());
  EXPECT_FALSE(device->endRecording().ok());
}

} // namespace
