//===- SizesTest.cpp - Arithmetic that does not overflow ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Sizes.h"

#include <gtest/gtest.h>

using namespace optimus_support;

TEST(CheckedSize, ComputesWhatFits) {
  EXPECT_EQ((CheckedSize(3) * 4 + 5).get(), 17);
  EXPECT_EQ((CheckedSize(INT64_MAX) + 0).get(), INT64_MAX);
  EXPECT_EQ(CheckedSize::product({}).get(), 1);
  const int64_t shape[] = {2, 3, 5};
  EXPECT_EQ(CheckedSize::product(shape).get(), 30);
  EXPECT_EQ((CheckedSize(12)).toString(), "12");
}

TEST(CheckedSize, RemembersWhatDoesNotFit) {
  CheckedSize sum = CheckedSize(INT64_MAX) + 1;
  EXPECT_EQ(sum.get(), std::nullopt);
  EXPECT_FALSE(sum.isAtMost(INT64_MAX));
  EXPECT_EQ(sum.toString(), "more than 2^63");
  EXPECT_EQ((sum * 0).get(), std::nullopt);
  EXPECT_EQ((sum + 1).get(), std::nullopt);
  const int64_t shape[] = {int64_t(1) << 32, int64_t(1) << 32, 0};
  EXPECT_EQ(CheckedSize::product(shape).get(), std::nullopt);
  EXPECT_EQ((CheckedSize(INT64_MIN) * -1).get(), std::nullopt);
}

TEST(CheckedSize, IsAtMostABound) {
  EXPECT_TRUE(CheckedSize(7).isAtMost(7));
  EXPECT_TRUE(CheckedSize(0).isAtMost(7));
  EXPECT_FALSE(CheckedSize(8).isAtMost(7));
  EXPECT_FALSE(CheckedSize(-1).isAtMost(7));
}

TEST(MatrixExtent, EndsWithTheLastRow) {
  EXPECT_EQ(matrixExtent(3, 2, 10).get(), 22);
  EXPECT_EQ(matrixExtent(1, 2, INT64_MAX).get(), 2);
  EXPECT_EQ(matrixExtent(3, 2, INT64_MAX).get(), std::nullopt);
}

// A tensor of any type fits where bytes are counted.
static_assert(kMaxBytes >= kMaxElements * int64_t(sizeof(double)));
