//===- CudnnPlansTest.cpp - What the real cuDNN says of our graphs --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuDNN makes plans, kernels and all, for a GPU that is described to it and
// need not be there. It opens libcuda.so.1 for that; python/tests/test_cudnn.py
// puts PlanningDriver.c in its place. Nothing is executed. Where cuDNN, which
// OPTIMUS_CUDNN_LIBRARY names, or NVRTC is missing, tests are skipped.
//
//===----------------------------------------------------------------------===//

#include "CudnnAttention.h"

#include "optimus-support/GpuScratch.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace optrt;
using namespace optrt::cuda;

namespace {
/// What differs among GPUs, with SXM.
struct DescribedGpu {
  const char *name;
  int version, cacheBytes, sharedBytes, memoryClock, memoryBits, processors,
      clock;
  int64_t bytes;
};
constexpr DescribedGpu kA100 = {"NVIDIA A100-SXM4-80GB",
                                800,
                                41943040,
                                166912,
                                1593000,
                                5120,
                                108,
                                1410000,
                                84974239744};
constexpr DescribedGpu kH100 = {"NVIDIA H100 80GB HBM3",
                                900,
                                52428800,
                                232448,
                                2619000,
                                5120,
                                132,
                                1980000,
                                84929216512};
constexpr DescribedGpu kB200 = {"NVIDIA B200", 1000,    132644864,
                                232448,        3996000, 8192,
                                148,           1965000, 191514083328};

/// As cuDNN writes a GPU's properties down; 9.28 asks for the width of its
/// memory, too.
std::string toJson(const DescribedGpu &gpu) {
  return concat(
      R"({"cudaDeviceId": 0, "deviceName": ")", gpu.name, R"(", "deviceVer": )",
      gpu.version, R"(, "driverVer": 13000, "isTccDriver": 0, "l2CacheSize": )",
      gpu.cacheBytes, R"(, "maxBlockSize": [1024, 1024, 64],
      "maxGridSize": [2147483647, 65535, 65535], "maxCtasPerSM": 32,
      "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
      "maxSharedMemoryPerBlockOptin": )",
      gpu.sharedBytes, R"(, "maxThreadsPerBlock": 1024,
      "maxThreadsPerSM": 2048, "memClockRateKHz": )",
      gpu.memoryClock, R"(, "memoryBusWidth": )", gpu.memoryBits,
      R"(, "multiProcessorCount": )", gpu.processors, R"(, "pciDeviceId": 0,
      "regsPerBlock": 65536, "reservedSharedMemoryPerBlock": 1024,
      "smClockRateKHz": )",
      gpu.clock, R"(, "supportCoopLaunch": 1, "totalGlobalMem": )", gpu.bytes,
      R"(, "warpSize": 32})");
}

optrt_attention_desc describe(int64_t batch, int64_t seq, int64_t heads,
                              int64_t kvHeads, int64_t headDim) {
  optrt_attention_desc d = {};
  d.batch = batch;
  d.seq = seq;
  d.heads = heads;
  d.kv_heads = kvHeads;
  d.head_dim = headDim;
  d.q_ld = d.kv_ld = (heads + 2 * kvHeads) * headDim;
  d.causal = true;
  d.type = OPTRT_BF16;
  return d;
}

class CudnnPlans : public testing::Test {
protected:
  void SetUp() override {
    StatusOr<const Cudnn *> opened = Cudnn::open();
    if (!opened.ok())
      GTEST_SKIP() << opened.status().message();
    if (!dlopen("libcuda.so.1", RTLD_NOW))
      GTEST_SKIP() << "cuDNN loads kernels by CUDA's driver: " << dlerror();
    if (!dlopen("libnvrtc.so.13", RTLD_NOW) &&
        !dlopen("libnvrtc.so.12", RTLD_NOW))
      GTEST_SKIP() << "cuDNN compiles kernels with NVRTC: " << dlerror();
    cudnn = *opened;
  }
  StatusOr<AttentionPlan> plan(const optrt_attention_desc &d, bool isGradient,
                               const DescribedGpu &gpu = kH100) {
    return planAttention(*cudnn, {nullptr, toJson(gpu)}, d, isGradient);
  }
  /// One that takes no more than programs reserve for it.
  void expectPlan(const optrt_attention_desc &d, bool isGradient,
                  const DescribedGpu &gpu = kH100) {
    StatusOr<AttentionPlan> made = plan(d, isGradient, gpu);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_LE(made->bytes, optimus_support::cudnnWorkspaceBytes(
                               {d.batch, d.seq, d.heads, d.kv_heads, d.head_dim,
                                isGradient, d.deterministic != 0}));
  }
  const Cudnn *cudnn = nullptr;
};

/// Of GPT-2 with 124 M parameters.
optrt_attention_desc gpt2() {
  return describe(/*batch=*/16, /*seq=*/1024, /*heads=*/12, /*kvHeads=*/12,
                  /*headDim=*/64);
}

optrt_attention_desc shared() {
  return describe(/*batch=*/4, /*seq=*/2048, /*heads=*/32, /*kvHeads=*/8,
                  /*headDim=*/128);
}

TEST_F(CudnnPlans, Forward) { expectPlan(gpt2(), /*isGradient=*/false); }

TEST_F(CudnnPlans, Gradient) { expectPlan(gpt2(), /*isGradient=*/true); }

TEST_F(CudnnPlans, DeterministicGradient) {
  optrt_attention_desc d = gpt2();
  d.deterministic = true;
  expectPlan(d, /*isGradient=*/true);
}

TEST_F(CudnnPlans, ForwardOfSharedKeysUpToLengths) {
  optrt_attention_desc d = shared();
  d.causal = false;
  d.has_lengths = true;
  expectPlan(d, /*isGradient=*/false);
}

TEST_F(CudnnPlans, GradientOfSharedKeysUpToLengths) {
  optrt_attention_desc d = shared();
  d.has_lengths = true;
  expectPlan(d, /*isGradient=*/true);
}

TEST_F(CudnnPlans, DeterministicGradientOfSharedKeys) {
  optrt_attention_desc d = shared();
  d.deterministic = true;
  expectPlan(d, /*isGradient=*/true);
}

/// Sequences that no tile divides, small heads.
TEST_F(CudnnPlans, DeterministicGradientOfWhatTilesDoNotDivide) {
  optrt_attention_desc d = describe(2, 100, 4, 2, 8);
  d.causal = false;
  d.has_lengths = d.deterministic = true;
  expectPlan(d, /*isGradient=*/true);
}

/// Their kernels add queries' gradients in room of their own.
TEST_F(CudnnPlans, GradientsOnAnotherGeneration) {
  optrt_attention_desc odd = describe(2, 100, 4, 2, 128);
  for (const DescribedGpu &gpu : {kA100, kB200}) {
    expectPlan(gpt2(), /*isGradient=*/true, gpu);
    expectPlan(odd, /*isGradient=*/true, gpu);
    expectPlan(shared(), /*isGradient=*/false, gpu);
  }
}

TEST_F(CudnnPlans, OtherHeadsAreRefused) {
  StatusOr<AttentionPlan> made = plan(describe(2, 64, 2, 2, 12), false);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::Unavailable);
}
} // namespace
