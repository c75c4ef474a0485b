//===- SubnormalsTest.cpp - Numbers below the normal ones -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Subnormals.h"
#include "../Team.h"
#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace optrt;

namespace {

constexpr int64_t kSize = 64;

class Subnormals : public testing::Test {
protected:
  void SetUp() override {
    if (!canFlushSubnormals())
      GTEST_SKIP() << "this processor cannot flush";
  }
};

void multiply(int64_t begin, int64_t end, void *const *args) {
  const auto *a = static_cast<const float *>(args[0]);
  const auto *b = static_cast<const float *>(args[1]);
  auto *c = static_cast<float *>(args[2]);
  for (int64_t i = begin; i < end; ++i)
    c[i] = a[i] * b[i];
}

/// How many of a kernel's results, and of a product's, are not zero. All are
/// subnormal numbers, of normal factors or of a subnormal one.
int64_t count(CpuDevice &device, float left, float right) {
  std::vector<float> a(kSize * kSize, left), b(kSize * kSize, right),
      one(kSize * kSize, -1), other(kSize * kSize, -1);
  void *args[] = {a.data(), b.data(), one.data()};
  EXPECT_TRUE(device
                  .launch(kCompute, {"multiply", kSize * kSize, 1, 1, 0},
                          hostKernel("multiply", multiply), args)
                  .ok());
  optrt_gemm_desc desc{};
  desc.m = desc.n = desc.k = kSize;
  desc.lda = desc.ldb = desc.ldc = kSize;
  EXPECT_TRUE(device
                  .gemm(kCompute, desc, a.data(), b.data(), other.data(),
                        nullptr, nullptr)
                  .ok());
  auto isThere = [](float value) { return value != 0; };
  return std::ranges::count_if(one, isThere) +
         std::ranges::count_if(other, isThere);
}

DeviceOptions flushing() {
  DeviceOptions options;
  options.flushesSubnormals = true;
  return options;
}

TEST_F(Subnormals, CountAsZeroOnEveryThreadWhereAsked) {
  for (int threads = 1; threads <= maxThreads; ++threads)
    onThread([&] {
      CpuDevice device(threads);
      ASSERT_TRUE(device.configure({}).ok());
      device.beginCommands();
      EXPECT_EQ(count(device, 1e-30f, 1e-10f), 2 * kSize * kSize);
      device.endCommands();

      CpuDevice other(threads);
      ASSERT_TRUE(other.configure(flushing()).ok());
      other.beginCommands();
      EXPECT_EQ(count(other, 1e-30f, 1e-10f), 0) << threads << " threads";
      EXPECT_EQ(count(other, 1e-40f, 1), 0) << threads << " threads";
      other.endCommands();
      EXPECT_EQ(count(device, 1e-30f, 1e-10f), 2 * kSize * kSize);
    });
}

TEST_F(Subnormals, AreThereForTheCallersOwnThreads) {
  onThread([] {
    CpuDevice device(maxThreads);
    ASSERT_TRUE(device.configure(flushing()).ok());
    std::vector<int> during(maxThreads), after(maxThreads);
    device.beginCommands();
    Team(maxThreads).all([&](int i) { during[i] = flushesSubnormals(); });
    device.endCommands();
    Team(maxThreads).all([&](int i) { after[i] = flushesSubnormals(); });
    EXPECT_EQ(during, std::vector<int>(maxThreads, 1));
    EXPECT_EQ(after, std::vector<int>(maxThreads, 0));
  });
}

TEST_F(Subnormals, AreNoticed) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "this processor does not say";
#endif
  onThread([] {
    CpuDevice device(1);
    device.beginCommands();
    (void)count(device, 1, 1);
    EXPECT_FALSE(device.takeSubnormals());
    (void)count(device, 1e-40f, 1);
    device.endCommands();
    device.beginCommands();
    EXPECT_TRUE(device.takeSubnormals());
    EXPECT_FALSE(device.takeSubnormals());
    device.endCommands();

    ASSERT_TRUE(device.configure(flushing()).ok());
    device.beginCommands();
    (void)count(device, 1e-40f, 1);
    EXPECT_FALSE(device.takeSubnormals());
    device.endCommands();
  });
}

/// Whatever it began with.
TEST_F(Subnormals, AScopeEndsWithItsOwnMode) {
  onThread([] {
    const SubnormalScope outer(true);
    {
      const SubnormalScope inner(false);
      EXPECT_FALSE(flushesSubnormals());
    }
    EXPECT_TRUE(flushesSubnormals());
  });
  EXPECT_FALSE(flushesSubnormals());
}

} // namespace
