//===- NcclLoadingTest.cpp - Code that is loaded beside collectives -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclFixture.h"

#include <gmock/gmock.h>
#include <latch>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// A product of one rank while the others have not come to its collective.
class NcclLoadingTest : public NcclTest {
protected:
  NcclLoadingTest() {
    setenv("OPTIMUS_CUBLASLT_LIBRARY", OPTIMUS_FAKE_CUBLASLT, 1);
  }

  Status multiplyBehindACollective(bool isRehearsed) {
    std::latch multiplied(1);
    return run([&](TestRank &rank) -> Status {
      constexpr int64_t kCount = 16;
      OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                             rank.device->allocate(4 * kCount * 4, "a test"));
      auto at = [&](int64_t matrix) {
        return memory.data() + matrix * kCount * 4;
      };
      optrt_gemm_desc product = {};
      product.m = product.n = product.k = product.lda = product.ldb =
          product.ldc = 4;
      Workload workload;
      workload.products = {product};
      OPTRT_RETURN_IF_ERROR(rank.device->prepare(workload));
      auto multiply = [&] {
        return rank.device->gemm(kCompute, product, at(0), at(1), at(2),
                                 nullptr, nullptr);
      };
      if (isRehearsed) {
        OPTRT_RETURN_IF_ERROR(multiply());
        OPTRT_RETURN_IF_ERROR(rank.device->synchronize());
      }
      const optrt_collective_desc sum = describe(OPTRT_ALL_REDUCE, kCount);
      const PlannedCollective planned{0, &sum};
      rank.collectives->beginCall(0, {&planned, 1});
      if (rank.index != 0)
        multiplied.wait();
      Status status = rank.put(sum, at(3), at(3));
      if (rank.index == 0) {
        if (status.ok())
          status = multiply();
        multiplied.count_down();
      }
      const Status ended = rank.end();
      return status.ok() ? ended : status;
    });
  }
};

TEST_F(NcclLoadingTest, WhatIsLoadedAtItsFirstUseWaitsForOtherRanks) {
  EXPECT_THAT(
      multiplyBehindACollective(/*isRehearsed=*/false).message(),
      HasSubstr("is loaded at its first use, behind all_reduce on stream "));
}

TEST_F(NcclLoadingTest, WhatWasDoneOnceDoesNotWait) {
  const Status status = multiplyBehindACollective(/*isRehearsed=*/true);
  EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace
