//===- MemoryPlannerTest.cpp - Plans are valid and tight -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomRanges.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace optimus_planning;

namespace {

/// The buffers of a training step: activations that are kept from the forward
/// pass to the backward pass, temporaries of both, gradients.
std::vector<LiveRange> trainingStep(int64_t layers, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<LiveRange> ranges;
  auto add = [&](int64_t lower, int64_t upper, int64_t size) {
    ranges.push_back(
        {static_cast<int64_t>(ranges.size()), lower, upper, size, 64});
  };
  constexpr int64_t kOps = 12;
  int64_t end = 2 * kOps * layers;
  int64_t hidden = 1536 * 4 * 512;
  const int64_t kinds[] = {hidden,     hidden,     3 * hidden, hidden,
                           4 * hidden, 4 * hidden, 512 * 4,    512 * 4 * 24};
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t op = 0; op < kOps; ++op) {
      int64_t forward = layer * kOps + op;
      int64_t backward = end - 1 - forward;
      add(forward, backward + 1, kinds[pick(random, 0, 7)]);
      add(forward, forward + pick(random, 1, 3), kinds[pick(random, 0, 7)]);
      add(backward, backward + pick(random, 1, 4), kinds[pick(random, 0, 7)]);
    }
  return ranges;
}

TEST(MemoryPlanner, EmptyProblem) {
  Plan empty = plan({});
  EXPECT_EQ(empty.arenaBytes, 0);
  EXPECT_EQ(empty.lowerBound, 0);
  EXPECT_TRUE(empty.optimal);
  EXPECT_EQ(validate({}, empty), std::nullopt);
}

TEST(MemoryPlanner, BuffersThatMeetInTimeShareTheirBytes) {
  // The second starts when the first ends.
  std::vector<LiveRange> ranges = {{1, 0, 5, 100, 64}, {2, 5, 9, 128, 64}};
  Plan result = plan(ranges);
  EXPECT_EQ(result.arenaBytes, 128);
  EXPECT_EQ(result.offsets, (std::vector<int64_t>{0, 0}));
}

TEST(MemoryPlanner, LowerBoundCountsPaddedSizes) {
  std::vector<LiveRange> ranges = {
      {1, 0, 5, 100, 64}, {2, 4, 9, 1, 64}, {3, 5, 6, 1, 4096}};
  // At 4: 128 + 64. At 5: 64 + 4096.
  EXPECT_EQ(lowerBound(ranges), 64 + 4096);
}

TEST(MemoryPlanner, BuffersWithoutTimeOrBytesTakeNoSpace) {
  std::vector<LiveRange> ranges = {
      {1, 0, 5, 64, 64}, {2, 3, 3, 640, 64}, {3, 0, 5, 0, 64}};
  Plan result = plan(ranges);
  // The buffer that is never alive may lie anywhere within the arena.
  EXPECT_EQ(result.lowerBound, 64);
  EXPECT_EQ(result.offsets[2], 0);
}

TEST(MemoryPlanner, GapsLendBytes) {
  LiveRange outer{1, 0, 9, 128, 64}, inner{2, 3, 5, 128, 64};
  EXPECT_EQ(plan(std::vector<LiveRange>{outer, inner}).arenaBytes, 256);
  outer.gaps = {{3, 5}};
  std::vector<LiveRange> ranges = {outer, inner};
  Plan result = plan(ranges);
  EXPECT_EQ(result.arenaBytes, 128);
  EXPECT_EQ(result.lowerBound, 128);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  // One time too few.
  ranges[0].gaps = {{4, 5}};
  EXPECT_EQ(plan(ranges).arenaBytes, 256);
  // It is never alive.
  ranges[0].gaps = {{0, 4}, {4, 9}};
  EXPECT_EQ(plan(ranges).arenaBytes, 128);
}

TEST(MemoryPlanner, ABufferIsOneAcrossItsGaps) {
  // In each half two fit side by side, but the one with the gap has one offset:
  // 64 bytes are free for it at 0 first and at 64 afterwards.
  std::vector<LiveRange> ranges = {
      {1, 0, 10, 64, 64, {{4, 6}}}, {2, 0, 4, 64, 64}, {3, 6, 10, 64, 64}};
  ranges[1].fixedOffset = 64;
  ranges[2].fixedOffset = 0;
  Plan result = plan(ranges);
  EXPECT_EQ(result.offsets, (std::vector<int64_t>{128, 64, 0}));
  EXPECT_TRUE(result.optimal);
}

TEST(MemoryPlanner, FixedBuffersStayWhereTheyAre) {
  std::vector<LiveRange> ranges = {
      {1, 0, 5, 64, 64}, {2, 0, 5, 192, 64}, {3, 0, 5, 64, 64}};
  ranges[2].fixedOffset = 128;
  // 128 bytes are free below it, and 192 above.
  Plan result = plan(ranges);
  EXPECT_EQ(result.offsets, (std::vector<int64_t>{0, 192, 128}));
  EXPECT_EQ(result.lowerBound, 320);
  EXPECT_TRUE(result.optimal);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  // Where nothing is alive, they still say how long the arena is.
  std::vector<LiveRange> alone = {{1, 0, 5, 64, 64, {}, 1024}};
  EXPECT_EQ(plan(alone).arenaBytes, 1088);
  EXPECT_EQ(lowerBound(alone), 1088);
}

TEST(MemoryPlanner, RandomPlansAreValidAndAboveTheBound) {
  std::mt19937_64 random(1);
  Options quick;
  quick.nodeLimit = 2000;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<LiveRange> ranges =
        randomRanges(random, pick(random, 1, 120), pick(random, 2, 60), 5000,
                     trial % 2 == 0);
    if (trial % 4 < 2)
      addGapsAndOffsets(random, ranges, 20'000);
    ASSERT_EQ(checkRanges(ranges), std::nullopt);
    Plan result = plan(ranges, quick);
    EXPECT_EQ(validate(ranges, result), std::nullopt) << "trial " << trial;
    EXPECT_GE(result.arenaBytes, lowerBound(ranges)) << "trial " << trial;
    EXPECT_EQ(result.lowerBound, lowerBound(ranges)) << "trial " << trial;
    EXPECT_GE(result.searchNodes, 0) << "trial " << trial;
    EXPECT_LE(result.searchNodes, quick.nodeLimit) << "trial " << trial;
  }
}

TEST(MemoryPlanner, TinyProblemsAreSolvedToTheOptimum) {
  std::mt19937_64 random(2);
  Options exact;
  exact.goodEnough = 1.0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LiveRange> ranges = randomRanges(
        random, pick(random, 4, 7), pick(random, 3, 8), 12, trial % 3 == 0);
    if (trial % 2 == 0)
      addGapsAndOffsets(random, ranges, 24);
    Plan result = plan(ranges, exact);
    EXPECT_EQ(validate(ranges, result), std::nullopt) << "trial " << trial;
    EXPECT_TRUE(result.optimal) << "trial " << trial;
    EXPECT_EQ(result.arenaBytes, leastArena(ranges)) << "trial " << trial;
  }
}

TEST(MemoryPlanner, SearchBeatsThePortfolioWhereItMust) {
  // Over many tight problems: never worse, and better on some.
  std::mt19937_64 random(3);
  Options portfolio, exact;
  portfolio.nodeLimit = 0;
  exact.goodEnough = 1.0;
  exact.nodeLimit = 20000;
  int better = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<LiveRange> ranges = randomRanges(random, 30, 14, 40, false);
    Plan quick = plan(ranges, portfolio);
    Plan searched = plan(ranges, exact);
    EXPECT_EQ(quick.searchNodes, 0);
    EXPECT_LE(searched.arenaBytes, quick.arenaBytes);
    better += searched.arenaBytes < quick.arenaBytes;
  }
  EXPECT_GT(better, 0);
}

TEST(MemoryPlanner, SamePlanEachTime) {
  std::mt19937_64 random(4);
  std::vector<LiveRange> ranges = randomRanges(random, 80, 40, 1000, true);
  Options options;
  options.nodeLimit = 5000;
  Plan first = plan(ranges, options), second = plan(ranges, options);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(first.searchNodes, second.searchNodes);
}

TEST(MemoryPlanner, NodeLimitHolds) {
  std::mt19937_64 random(5);
  std::vector<LiveRange> ranges = randomRanges(random, 300, 60, 1000, false);
  Options options;
  options.goodEnough = 1.0;
  options.nodeLimit = 3000;
  Plan result = plan(ranges, options);
  EXPECT_LE(result.searchNodes, 3000);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
}

TEST(MemoryPlanner, SearchesForWhatItsBytesAreWorth) {
  std::mt19937_64 random(5);
  std::vector<LiveRange> ranges = randomRanges(random, 300, 60, 1000, false);
  Options options, noSearch;
  options.goodEnough = 1.0;
  options.bytesPerNode = 64;
  noSearch.nodeLimit = 0;
  Plan quick = plan(ranges, noSearch);
  int64_t gain = quick.arenaBytes - quick.lowerBound;
  ASSERT_GT(gain, 0);
  Plan result = plan(ranges, options);
  EXPECT_GT(result.searchNodes, 0);
  EXPECT_LE(result.searchNodes, 20'000 + gain / options.bytesPerNode);
  EXPECT_LE(result.arenaBytes, quick.arenaBytes);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
}

TEST(MemoryPlanner, TimeoutOfZeroKeepsThePortfolio) {
  std::mt19937_64 random(6);
  std::vector<LiveRange> ranges = randomRanges(random, 300, 60, 1000, false);
  Options options, noSearch;
  options.goodEnough = 1.0;
  options.timeout = 0;
  noSearch.nodeLimit = 0;
  Plan result = plan(ranges, options);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  EXPECT_LE(result.arenaBytes, plan(ranges, noSearch).arenaBytes);
}

TEST(MemoryPlanner, TrainingStepsComeNearTheBound) {
  // On training graphs placement in order of size lands within 1.1 % of the
  // bound; the portfolio must not do worse.
  Options portfolio;
  portfolio.nodeLimit = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<LiveRange> ranges = trainingStep(24, seed);
    Plan result = plan(ranges, portfolio);
    EXPECT_EQ(validate(ranges, result), std::nullopt);
    EXPECT_LE(static_cast<double>(result.arenaBytes),
              1.011 * static_cast<double>(result.lowerBound))
        << "seed " << seed << ", " << result.order;
  }
}

TEST(MemoryPlanner, ScalesToTwentyThousandBuffers) {
  // Without asserting a time: a quadratic algorithm per order would be noticed
  // by whoever waits for this test.
  Options portfolio;
  portfolio.nodeLimit = 0;
  std::vector<LiveRange> step = trainingStep(556, 9);
  ASSERT_GE(step.size(), 20000u);
  Plan result = plan(step, portfolio);
  EXPECT_EQ(validate(step, result), std::nullopt);
  EXPECT_LE(static_cast<double>(result.arenaBytes),
            1.011 * static_cast<double>(result.lowerBound));

  // Short lives in one long chain.
  std::mt19937_64 random(10);
  std::vector<LiveRange> chain;
  for (int64_t id = 0; id < 20000; ++id)
    chain.push_back(
        {id, id, id + pick(random, 2, 40), pick(random, 1, 100000), 64});
  result = plan(chain, portfolio);
  EXPECT_EQ(validate(chain, result), std::nullopt);
}

TEST(MemoryPlanner, PlacesThePeakOfManyBuffersFirst) {
  // Short lives in one long chain, and a thousand larger ones around one time.
  std::mt19937_64 random(11);
  std::vector<LiveRange> ranges;
  for (int64_t id = 0; id < 12'000; ++id)
    ranges.push_back(
        {id, id, id + pick(random, 2, 40), pick(random, 1, 100) * 64, 64});
  for (int64_t id = 12'000; id < 13'000; ++id) {
    int64_t lower = pick(random, 6000, 6060);
    ranges.push_back({id, lower, lower + pick(random, 5, 60),
                      pick(random, 1, 1000) * 64, 64});
  }
  Options portfolio, search;
  portfolio.nodeLimit = search.nodeLimit = 0;
  search.moveLimit = 5000;
  portfolio.bytesPerNode = search.bytesPerNode = 16;
  Plan before = plan(ranges, portfolio), result = plan(ranges, search);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  EXPECT_EQ(result.order, "peak first");
  EXPECT_LT(result.arenaBytes, before.arenaBytes);
}

TEST(CheckRanges, NamesTheProblem) {
  auto problem = [](LiveRange range) {
    return checkRanges(std::vector<LiveRange>{range}).value_or("none");
  };
  EXPECT_EQ(problem({7, 0, 1, 1, 64}), "none");
  EXPECT_EQ(problem({7, 2, 1, 1, 64}),
            "buffer 7: upper 1 is before lower 2; expected lower <= upper");
  EXPECT_EQ(problem({7, 0, 1, -1, 64}),
            "buffer 7: size -1 is negative; expected a number of bytes");
  EXPECT_EQ(problem({7, 0, 1, 1, 48}),
            "buffer 7: alignment 48 is not a power of two");
  EXPECT_EQ(problem({7, 0, 1, 1, 0}),
            "buffer 7: alignment 0 is not a power of two");
  EXPECT_NE(problem({7, 0, 1, INT64_MAX, 64}).find("add up to more"),
            std::string::npos);
  const std::string gaps = "expected gaps apart, from the first to the last, "
                           "within 0-9";
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {{2, 3}, {3, 4}}}), "none");
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {{2, 4}, {3, 5}}}),
            "buffer 7: the gap 3-5 is out of order; " + gaps);
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {{2, 2}}}),
            "buffer 7: the gap 2-2 is out of order; " + gaps);
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {{-1, 2}}}),
            "buffer 7: the gap -1-2 is out of order; " + gaps);
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {{8, 10}}}),
            "buffer 7: the gap 8-10 is out of order; " + gaps);
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {}, 96}),
            "buffer 7: the fixed offset 96 is not a multiple of its alignment "
            "64");
  EXPECT_EQ(problem({7, 0, 9, 1, 64, {}, -64}),
            "buffer 7: the fixed offset -64 is not a multiple of its alignment "
            "64");
  EXPECT_NE(problem({7, 0, 9, 1, 64, {}, int64_t{1} << 62}).find("too large"),
            std::string::npos);
  std::vector<LiveRange> both = {{7, 0, 4, 65, 64, {}, 0},
                                 {8, 3, 6, 1, 64, {}, 64}};
  EXPECT_EQ(checkRanges(both).value_or("none"),
            "buffer 7 (bytes [0, 128), times [0, 4)) and buffer 8 (bytes [64, "
            "128), times [3, 6)) overlap; both have fixed offsets");
  both[0].gaps = {{3, 4}};
  EXPECT_EQ(checkRanges(both), std::nullopt);
  std::vector<LiveRange> twice = {{7, 0, 1, 1, 64}, {7, 0, 1, 1, 64}};
  EXPECT_EQ(checkRanges(twice).value_or("none"),
            "buffer 7: the id is given twice; ids must be unique");
}

TEST(Validate, NamesTheOverlappingPair) {
  std::vector<LiveRange> ranges = {
      {11, 0, 4, 128, 64}, {12, 4, 8, 64, 64}, {13, 3, 6, 64, 64}};
  Plan result;
  result.arenaBytes = 192;
  result.offsets = {0, 64, 64};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 11 (bytes [0, 128), times [0, 4)) and buffer 13 (bytes "
            "[64, 128), times [3, 6)) overlap");
  result.offsets = {0, 64, 128};
  EXPECT_EQ(validate(ranges, result).value_or("valid"), "valid");
  result.offsets = {0, 128, 128};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 13 (bytes [128, 192), times [3, 6)) and buffer 12 (bytes "
            "[128, 192), times [4, 8)) overlap");
}

TEST(Validate, RejectsBadOffsets) {
  std::vector<LiveRange> ranges = {{1, 0, 4, 100, 64}};
  Plan result;
  result.arenaBytes = 128;
  result.offsets = {};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "the plan has 0 offsets for 1 buffers");
  result.offsets = {-64};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 1 at offset -64: the offset is negative");
  result.offsets = {8};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 1 at offset 8: not a multiple of its alignment 64");
  result.offsets = {64};
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 1 at offset 64: its 128 bytes pass the end of the arena of "
            "128 bytes");
  ranges[0].fixedOffset = 0;
  EXPECT_EQ(validate(ranges, result).value_or("valid"),
            "buffer 1 at offset 64: its fixed offset is 0");
}

TEST(Validate, AgreesWithComparingAllPairs) {
  std::mt19937_64 random(7);
  int overlapping = 0;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<LiveRange> ranges = randomRanges(random, 5, 10, 20, false);
    if (trial % 2 == 0)
      addGapsAndOffsets(random, ranges, 100);
    Plan result;
    result.arenaBytes = 200;
    for (const LiveRange &range : ranges)
      result.offsets.push_back(
          range.fixedOffset.value_or(pick(random, 0, 100)));
    bool overlap = anyOverlap(ranges, result.offsets);
    EXPECT_EQ(validate(ranges, result).has_value(), overlap)
        << "trial " << trial;
    overlapping += overlap;
  }
  // Both answers occur often.
  EXPECT_GT(overlapping, 50);
  EXPECT_LT(overlapping, 450);
}

} // namespace
