//===- TuningTest.cpp - The fastest of several algorithms -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

using namespace optrt;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A product of ones, whose algorithms take seconds.
class TuningTest : public FakeGpuTest {
protected:
  TuningTest() {
    setenv("OPTIMUS_FAKE_GPU_PRODUCT_MS", "3000,1000,5000,2000", 1);
    make();
  }
  ~TuningTest() override {
    unsetenv("OPTIMUS_FAKE_GPU_PRODUCT_MS");
    release();
  }

  void release() {
    for (DeviceMemory *one : {&a, &b, &c})
      *one = {};
  }
  /// Rows of the operands begin this many elements apart.
  void make(DeviceOptions options = {}, int64_t apart = 4) {
    release();
    start(0, 16, options);
    desc.m = desc.n = 3;
    desc.k = 2;
    desc.lda = desc.ldb = desc.ldc = apart;
    a = allocate(3 * desc.lda * 4);
    b = allocate(desc.k * desc.ldb * 4);
    c = allocate(3 * desc.ldc * 4);
    ASSERT_TRUE(device->synchronize().ok());
  }
  ProductCall call() const {
    return {desc, a.data(), b.data(), c.data(), nullptr, nullptr};
  }
  Status tune(TunedProducts &tuned) {
    const ProductCall calls[] = {call(), call()};
    return device->tune(calls, tuned);
  }
  /// How often each algorithm ran since the last call.
  std::vector<int64_t> ran() {
    EXPECT_TRUE(device->synchronize().ok());
    const cuda::fake::Counts counts = optimus_fake_gpu_counts();
    std::vector<int64_t> result;
    for (int64_t &before : seen) {
      const int64_t now = counts.products[&before - seen];
      result.push_back(now - std::exchange(before, now));
    }
    return result;
  }

  optrt_gemm_desc desc{};
  DeviceMemory a, b, c;
  int64_t seen[cuda::fake::kFakeAlgorithms] = {};
};

TEST_F(TuningTest, TheFastestIsChosenAndKept) {
  TunedProducts tuned;
  const int64_t allocated = optimus_fake_gpu_counts().everAllocated;
  ASSERT_TRUE(tune(tuned).ok());
  ASSERT_EQ(tuned.size(), 1u) << "alike";
  EXPECT_THAT(tuned.begin()->first, HasSubstr("m=3 n=3 k=2 lda=4 "));
  EXPECT_NEAR(tuned.begin()->second.seconds, 1, 0.1);
  const std::vector<int64_t> tried = ran();
  EXPECT_THAT(tried, Each(tried[0]));
  EXPECT_GT(tried[0], 1);
  EXPECT_EQ(optimus_fake_gpu_counts().everAllocated, allocated);
  ProductCall p = call();
  ASSERT_TRUE(
      device->gemm(kCompute, desc, p.a, p.b, p.c, nullptr, nullptr).ok());
  EXPECT_THAT(ran(), ElementsAre(0, 1, 0, 0));

  // Another device need not try.
  make();
  std::fill(std::begin(seen), std::end(seen), 0);
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_THAT(ran(), Each(0));
  p = call();
  ASSERT_TRUE(
      device->gemm(kCompute, desc, p.a, p.b, p.c, nullptr, nullptr).ok());
  EXPECT_THAT(ran(), ElementsAre(0, 1, 0, 0));
}

TEST_F(TuningTest, WithoutItTheHeuristicChooses) {
  const ProductCall p = call();
  ASSERT_TRUE(
      device->gemm(kCompute, desc, p.a, p.b, p.c, nullptr, nullptr).ok());
  EXPECT_THAT(ran(), ElementsAre(1, 0, 0, 0));
}

TEST_F(TuningTest, OperandsAreZeroAfterwards) {
  desc.accumulate = 1;
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_THAT(read(a.data(), 12), Each(0));
  EXPECT_THAT(read(b.data(), 8), Each(0));
  EXPECT_THAT(read(c.data(), 12), Each(0));
}

TEST_F(TuningTest, RowsThatAreNotAlignedAreMultipliedMoreSlowly) {
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  const double aligned = tuned.begin()->second.seconds;
  tuned.clear();
  make({}, /*apart=*/3);
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_GT(tuned.begin()->second.seconds, 2 * aligned);
}

TEST_F(TuningTest, OfTimesThatAreAlikeTheHeuristicsFirstCounts) {
  setenv("OPTIMUS_FAKE_GPU_PRODUCT_MS", "9000,5010,5000,5005", 1);
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  ran();
  const ProductCall p = call();
  ASSERT_TRUE(
      device->gemm(kCompute, desc, p.a, p.b, p.c, nullptr, nullptr).ok());
  EXPECT_THAT(ran(), ElementsAre(0, 1, 0, 0));
}

TEST_F(TuningTest, ProductsThatDifferAreTunedApart) {
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  desc.accumulate = 1;
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_EQ(tuned.size(), 2u);
  make({.tf32 = true});
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_EQ(tuned.size(), 3u);
}

TEST_F(TuningTest, AnAlgorithmThatIsNoneIsRefused) {
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  make();
  for (const char *text : {"", "12", "xyz"}) {
    tuned.begin()->second.algorithm = text;
    const Status status = tune(tuned);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("128 hexadecimal digits"));
  }
}

TEST_F(TuningTest, AnAlgorithmThatTheLibraryDoesNotTakeIsFoundAnew) {
  TunedProducts tuned;
  ASSERT_TRUE(tune(tuned).ok());
  const TunedProduct right = tuned.begin()->second;
  tuned.begin()->second.algorithm = std::string(128, '0');
  make();
  ASSERT_TRUE(tune(tuned).ok());
  EXPECT_EQ(tuned.begin()->second.algorithm, right.algorithm);
}

TEST_F(TuningTest, TheMachineHasTheVersionsOfItsLibraries) {
  StatusOr<std::string> machine = device->tuningMachine();
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(*machine,
            "Optimus's fake GPU (emulated), CUDA 13.0, cuBLASLt 13.0.0");
}

} // namespace
