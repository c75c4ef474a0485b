//===- HostBugsTest.cpp - Mistakes of host code, on a fake GPU ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a GPU may leave to luck, made on purpose: the fake one must tell.
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

using namespace optrt;
using testing::HasSubstr;

namespace {

using HostBugsTest = FakeGpuTest;

TEST_F(HostBugsTest, AKernelThatRunsPastItsMemory) {
  expectFailure(
      addTo(kCompute, memory.data(), 1, 65),
      "add: thread 0 of block 2 reads 4 bytes that are not allocated");
}

TEST_F(HostBugsTest, WhoWaitsForAQueueIsToldWhatFailedThere) {
  ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
  auto wait = [&] { return device->call(kCompute, [] { return okStatus(); }); };
  EXPECT_TRUE(wait().ok());
  Status status = addTo(kCompute, memory.data(), 1, 65);
  if (status.ok())
    status = wait();
  EXPECT_THAT(status.message(),
              HasSubstr("add: thread 0 of block 2 reads 4 bytes"));
}

TEST_F(HostBugsTest, AKernelOnHostMemory) {
  float here[16] = {};
  expectFailure(addTo(kCompute, here, 1), "that are not allocated");
  EXPECT_EQ(here[0], 0);
}

/// Whether the launch has had its turn when the memory goes, or not.
const auto kFreedInFlight = testing::AnyOf(
    HasSubstr("add touches 1 bytes that were given back before its turn came"),
    HasSubstr("memory is given back that add on stream 0 uses, and nobody "
              "waited for it"));

TEST_F(HostBugsTest, MemoryThatIsGivenBackWhileItIsUsed) {
  for (uint64_t seed = 0; seed != 8; ++seed) {
    start(seed);
    Status status;
    {
      DeviceMemory freed = allocate(64);
      status = addTo(kCompute, freed.data(), 1);
    }
    if (Status later = device->synchronize(); status.ok())
      status = later;
    EXPECT_THAT(status.message(), kFreedInFlight);
  }
}

TEST_F(HostBugsTest, PinnedMemoryThatIsGivenBackBeforeItIsWritten) {
  for (uint64_t seed = 0; seed != 8; ++seed) {
    start(seed);
    Status status;
    {
      auto pinned = device->allocateOnHost(64, "words");
      ASSERT_TRUE(pinned.ok());
      status = device->post(kCompute,
                            reinterpret_cast<uint32_t *>(pinned->data()), 7);
    }
    if (Status later = device->synchronize(); status.ok())
      status = later;
    EXPECT_THAT(
        status.message(),
        testing::AnyOf(HasSubstr("a word is written of memory of the host that "
                                 "is not pinned, or was given back before"),
                       HasSubstr("memory is given back that a written word on "
                                 "stream 0 uses, and nobody waited for it")));
  }
}

TEST_F(HostBugsTest, MemoryThatIsGivenBackBehindAWaitThatIsNone) {
  for (uint64_t seed = 0; seed != 8; ++seed) {
    start(seed);
    DeviceMemory freed = allocate(64);
    ASSERT_TRUE(addTo(kCompute, freed.data(), 1).ok());
    {
      SeededBug bug("free in flight");
      ASSERT_TRUE(device->synchronize().ok());
      freed = {};
    }
    EXPECT_THAT(device->synchronize().message(), kFreedInFlight);
  }
}

TEST_F(HostBugsTest, ACopyThatRunsPastItsMemory) {
  expectFailure(
      device->copy(kCompute, {2, 33, 33, 33, 4}, memory.data(), memory.data()),
      "touches 264 bytes where 256 are left");
}

TEST_F(HostBugsTest, AFailureStays) {
  expectFailure(addTo(kCompute, memory.data(), 1, 65), "not allocated");
  EXPECT_FALSE(addTo(kCompute, memory.data(), 1).ok());
  EXPECT_FALSE(device->synchronize().ok());
}

TEST_F(HostBugsTest, AWorkspaceThatIsNotAligned) {
  auto products = cuda::Products::open(/*tf32=*/false);
  ASSERT_TRUE(products.ok()) << products.status().message();
  DeviceMemory workspace = allocate(cuda::kProductWorkspaceBytes + 256);
  optrt_gemm_desc desc{};
  desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 2;
  float *x = reinterpret_cast<float *>(memory.data());
  const cuda::ProductOperands operands{x, x + 4, x + 8, nullptr, nullptr};
  Status status =
      (*products)->run(nullptr, desc, operands, workspace.data() + 128);
  EXPECT_THAT(status.message(),
              HasSubstr("cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE; "
                        "CUBLASLT_LOG_LEVEL=1"));
}

TEST_F(HostBugsTest, AProductOnAnotherQueue) {
  optrt_gemm_desc desc{};
  desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 2;
  char *x = memory.data();
  Status status = device->gemm(device->queue("axis 0"), desc, x, x + 16, x + 32,
                               nullptr, nullptr);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("found 'axis 0'"));
}

} // namespace
