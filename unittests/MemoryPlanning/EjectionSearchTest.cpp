//===- EjectionSearchTest.cpp - The local search ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomRanges.h"

#include <gtest/gtest.h>

#include <chrono>

using namespace optimus_planning;

namespace {

/// Steps that follow each other closely, as the commands of one layer after the
/// other where all is recomputed: no time is much fuller than the others, which
/// is hardest to place.
std::vector<LiveRange> chain(int64_t count, uint64_t seed,
                             int64_t longest = 100) {
  std::mt19937_64 random(seed);
  std::vector<LiveRange> ranges;
  for (int64_t id = 0; id < count; ++id)
    ranges.push_back(
        {id, id, id + pick(random, 2, longest), pick(random, 1, 100000), 64});
  return ranges;
}

double ratio(const Plan &plan) {
  return static_cast<double>(plan.arenaBytes) /
         static_cast<double>(plan.lowerBound);
}

Options withMoves(int64_t moves) {
  Options options;
  options.goodEnough = 1.0;
  options.nodeLimit = 0;
  options.moveLimit = moves;
  return options;
}

TEST(EjectionSearch, LowersTheArenaOfTwentyThousandBuffers) {
  std::vector<LiveRange> ranges = chain(20'000, 0, 40);
  Plan portfolio = plan(ranges, withMoves(0));
  Plan improved = plan(ranges, withMoves(200'000));
  EXPECT_EQ(validate(ranges, improved), std::nullopt);
  EXPECT_EQ(portfolio.moves, 0);
  EXPECT_GT(ratio(portfolio), 1.02);
  EXPECT_LE(ratio(improved), 1.01);
  EXPECT_EQ(improved.order, "ejection");
}

TEST(EjectionSearch, MoreMovesNeverGiveALargerArena) {
  std::vector<LiveRange> ranges = chain(2000, 3);
  int64_t last = plan(ranges, withMoves(0)).arenaBytes;
  for (int64_t moves : {100, 10'000}) {
    Plan result = plan(ranges, withMoves(moves));
    EXPECT_EQ(validate(ranges, result), std::nullopt);
    EXPECT_LE(result.arenaBytes, last) << moves << " moves";
    last = result.arenaBytes;
    // The same moves give the same plan.
    if (moves == 100)
      EXPECT_EQ(result.offsets, plan(ranges, withMoves(moves)).offsets);
  }
}

TEST(EjectionSearch, GoesOnWhileTheArenaIsFarFromTheBound) {
  std::vector<LiveRange> ranges = chain(2000, 3);
  constexpr int64_t kMoves = 100;
  Options options = withMoves(kMoves);
  Plan near = plan(ranges, options);
  EXPECT_EQ(near.moves, kMoves);
  options.farMoveLimit = 50'000;
  options.far = ratio(near);
  EXPECT_EQ(plan(ranges, options).offsets, near.offsets);

  options.far = 1 + (ratio(near) - 1) / 2;
  Plan further = plan(ranges, options);
  EXPECT_EQ(validate(ranges, further), std::nullopt);
  EXPECT_GT(further.moves, kMoves);
  EXPECT_LE(ratio(further), options.far);
}

TEST(EjectionSearch, KeepsGapsAndFixedOffsets) {
  std::mt19937_64 random(5);
  int improved = 0;
  for (int trial = 0; trial < 4; ++trial) {
    std::vector<LiveRange> ranges = chain(300, trial, 60);
    addGapsAndOffsets(random, ranges, 1'000'000);
    Plan before = plan(ranges, withMoves(0));
    Plan after = plan(ranges, withMoves(2000));
    EXPECT_EQ(validate(ranges, after), std::nullopt) << "trial " << trial;
    EXPECT_LE(after.arenaBytes, before.arenaBytes) << "trial " << trial;
    improved += after.arenaBytes < before.arenaBytes;
  }
  EXPECT_GT(improved, 0);
}

TEST(EjectionSearch, LowersEveryComponent) {
  // Two chains that never meet: both must shrink.
  std::vector<LiveRange> ranges = chain(1000, 6), second = chain(1000, 7);
  for (LiveRange &range : second) {
    range.id += 10'000;
    range.lower += 10'000;
    range.upper += 10'000;
    ranges.push_back(range);
  }
  Plan before = plan(ranges, withMoves(0));
  Plan after = plan(ranges, withMoves(50'000));
  EXPECT_EQ(validate(ranges, after), std::nullopt);
  EXPECT_LT(after.arenaBytes, before.arenaBytes) << ratio(before);
}

TEST(EjectionSearch, GoesOnUntilTheTimeout) {
  std::vector<LiveRange> ranges = chain(2000, 3);
  Options options;
  options.goodEnough = 1.0;
  options.nodeLimit = 0;
  options.timeout = 1.5;
  auto begin = std::chrono::steady_clock::now();
  Plan result = plan(ranges, options);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  EXPECT_GT(result.moves, 0);
  // Either it used the time, or nothing was left to gain.
  EXPECT_TRUE(seconds.count() >= 1.5 || result.optimal);
}

TEST(EjectionSearch, StopsAtTheCapacity) {
  std::vector<LiveRange> ranges = chain(2000, 8);
  Plan portfolio = plan(ranges, withMoves(0));
  ASSERT_GT(ratio(portfolio), 1.003);
  Options options = withMoves(200'000);
  options.capacity = portfolio.arenaBytes -
                     (portfolio.arenaBytes - portfolio.lowerBound) / 4;
  Plan result = plan(ranges, options);
  EXPECT_LT(*options.capacity, portfolio.arenaBytes);
  EXPECT_LE(result.arenaBytes, *options.capacity);
  EXPECT_LT(result.moves, 200'000);
}

} // namespace
