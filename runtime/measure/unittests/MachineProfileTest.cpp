//===- MachineProfileTest.cpp - The line through measured points ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure/MachineProfile.h"

#include <gtest/gtest.h>

using namespace optrt;

namespace {

TEST(FitLinearCost, FindsAnExactLine) {
  std::vector<CostPoint> points;
  for (double bytes = 64; bytes < 1e8; bytes *= 4)
    points.push_back({bytes, 5e-6 + bytes * 1e-10});
  LinearCost cost = fitLinearCost(points);
  // Two unknowns of which every point is exact: rounding only.
  EXPECT_NEAR(cost.alphaSeconds, 5e-6, 5e-6 * 1e-9);
  EXPECT_NEAR(cost.betaSecondsPerByte, 1e-10, 1e-10 * 1e-9);
}

TEST(FitLinearCost, WeighsErrorsRelatively) {
  // Off by a factor of 2 at 1 s is off as much as at 1 us.
  CostPoint points[] = {{0, 1e-6}, {0, 2e-6}, {1e9, 1}, {1e9, 2}};
  LinearCost cost = fitLinearCost(points);
  // min over t of (t/1 - 1)^2 + (t/2 - 1)^2: t = 1.5 / 1.25.
  EXPECT_NEAR(cost.alphaSeconds, 1.2e-6, 1e-12);
  EXPECT_NEAR(cost.betaSecondsPerByte, 1.2e-9, 1e-14);
}

TEST(FitLinearCost, NeitherPartIsNegative) {
  CostPoint superlinear[] = {{1, 1e-6}, {1000, 1}};
  EXPECT_EQ(fitLinearCost(superlinear).alphaSeconds, 0);
  CostPoint falling[] = {{1, 2}, {1000, 1}};
  EXPECT_EQ(fitLinearCost(falling).betaSecondsPerByte, 0);
  CostPoint one[] = {{100, 3}};
  EXPECT_DOUBLE_EQ(fitLinearCost(one).alphaSeconds, 3);
}

} // namespace
