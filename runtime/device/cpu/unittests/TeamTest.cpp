//===- TeamTest.cpp - Teams that OpenMP makes smaller ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Team.h"

#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

using namespace optrt;
using testing::HasSubstr;

namespace {

int given(int threads) {
  int count = 0;
#pragma omp parallel num_threads(threads)
  if (omp_get_thread_num() == 0)
    count = omp_get_num_threads();
  return count;
}

TEST(Team, OpenMPMayNotShrinkIt) {
  onThread([] {
    omp_set_dynamic(true);
    ASSERT_TRUE(Team(maxThreads).start().ok());
    EXPECT_FALSE(omp_get_dynamic());
    EXPECT_EQ(given(maxThreads), maxThreads);
  });
}

TEST(Team, AScopeGivesItWholeToLibraries) {
  onThread([] {
    omp_set_dynamic(true);
    omp_set_num_threads(1);
    {
      Team::Scope scope{Team(maxThreads)};
      EXPECT_EQ(omp_get_max_threads(), maxThreads);
      EXPECT_FALSE(omp_get_dynamic());
      EXPECT_EQ(given(maxThreads), maxThreads);
    }
    EXPECT_EQ(omp_get_max_threads(), 1);
    EXPECT_TRUE(omp_get_dynamic());
  });
}

/// As with OMP_MAX_ACTIVE_LEVELS=0, which counts for the whole process.
TEST(Team, FewerThreadsThanAskedAreRefused) {
  if (maxThreads == 1)
    GTEST_SKIP() << "a team is one thread";
  const int before = omp_get_max_active_levels();
  omp_set_max_active_levels(0);
  EXPECT_EQ(Team::most(), 1);
  EXPECT_TRUE(Team(1).start().ok());
  const Status status = Team(maxThreads).start();
  omp_set_max_active_levels(before);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("OMP_MAX_ACTIVE_LEVELS is 0"));
  EXPECT_THAT(status.message(), HasSubstr("--threads-per-rank 1"));
  EXPECT_GE(Team::most(), maxThreads);
}

/// A product whose C the library divides among the threads it expects.
TEST(Team, ProductsAreWholeWhereOpenMPWouldShrinkIt) {
  onThread([] {
    omp_set_dynamic(true);
    CpuDevice device(maxThreads);
    constexpr int64_t n = 192;
    std::vector<float> a(n * n, 1.f), b(n * n, 2.f), c(n * n, -1.f);
    optrt_gemm_desc desc{};
    desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = n;
    ASSERT_TRUE(device
                    .gemm(kCompute, desc, a.data(), b.data(), c.data(), nullptr,
                          nullptr)
                    .ok());
    EXPECT_EQ(c, std::vector<float>(n * n, 2.f * n));
  });
}

} // namespace
