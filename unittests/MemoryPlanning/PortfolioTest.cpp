//===- PortfolioTest.cpp - What placing one by one spends -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanning/Portfolio.h"

#include "RandomRanges.h"

#include <gtest/gtest.h>

using namespace optimus_planning;

namespace {

struct Outcome {
  int64_t arenaBytes, looks;
};

/// Places random buffers for which no order meets the most bytes alive.
Outcome place(uint64_t seed, int64_t count, int64_t bytesPerNode) {
  std::mt19937_64 random(seed);
  const std::vector<LiveRange> ranges =
      randomRanges(random, count, count / 5, /*maxSize=*/1'000'000,
                   /*mixedAlignments=*/false);
  const Component component = splitInTime(ranges).front();
  const int64_t granted = 1'000'000'000;
  int64_t work = granted;
  const Placement placement =
      placeByPortfolio(component, component.lowerBound, component.lowerBound,
                       bytesPerNode, work);
  EXPECT_GT(placement.arenaBytes, component.lowerBound);
  return {placement.arenaBytes, granted - work};
}

TEST(Portfolio, RepairEndsWhereItFindsNothing) {
  const Outcome all = place(/*seed=*/3, 300, /*bytesPerNode=*/0);
  const Outcome weighed = place(/*seed=*/3, 300, /*bytesPerNode=*/1);
  EXPECT_EQ(weighed.arenaBytes, all.arenaBytes);
  EXPECT_LT(weighed.looks, all.looks / 2);
}

TEST(Portfolio, RepairGoesOnWhereItFindsMore) {
  const Outcome inVain = place(/*seed=*/3, 300, /*bytesPerNode=*/1);
  const Outcome found = place(/*seed=*/1, 1000, /*bytesPerNode=*/1);
  EXPECT_GT(found.looks, 2 * inVain.looks);
}

} // namespace
