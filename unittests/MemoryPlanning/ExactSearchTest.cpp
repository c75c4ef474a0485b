//===- ExactSearchTest.cpp - The search against brute force ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomRanges.h"

#include "MemoryPlanning/SkylineSearch.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace optimus_planning;

namespace {

/// 100,000 problems with OPTIMUS_LONG_TESTS in the environment.
int trials(int quick) {
  return std::getenv("OPTIMUS_LONG_TESTS") ? 100'000 : quick;
}

/// Few buffers for brute force, all of them alive and none empty, so that the
/// optimum is above the bound as often as can be.
std::vector<LiveRange> smallProblem(std::mt19937_64 &random, int trial) {
  std::vector<LiveRange> ranges;
  int64_t times = pick(random, 4, 6);
  for (int64_t id = 0; id < 7; ++id) {
    int64_t lower = pick(random, 0, times - 1);
    ranges.push_back({id, lower, pick(random, lower + 1, times),
                      pick(random, 1, 6),
                      trial % 3 == 0 ? int64_t{1} << pick(random, 0, 2) : 1});
  }
  if (trial % 2 == 0)
    addGapsAndOffsets(random, ranges, 12);
  return ranges;
}

TEST(ExactSearch, FitsTheOptimumAndNothingLess) {
  std::mt19937_64 random(11);
  int aboveBound = 0;
  for (int trial = 0; trial < trials(1500); ++trial) {
    std::vector<LiveRange> ranges = smallProblem(random, trial);
    int64_t least = leastArena(ranges);
    std::vector<int64_t> placement(ranges.size(), 0);
    bool fitsInLess = true;
    for (const Component &component : splitInTime(ranges)) {
      SkylineSearch search(component);
      SearchBudget budget{1'000'000, std::nullopt};
      std::vector<int64_t> offsets;
      ASSERT_EQ(search.run(least, budget, offsets), SearchResult::Fits)
          << "trial " << trial;
      for (size_t i = 0; i < offsets.size(); ++i) {
        placement[component.buffers[i].range] = offsets[i];
        EXPECT_LE(offsets[i] + component.buffers[i].size, least);
        EXPECT_EQ(offsets[i] % component.buffers[i].alignment, 0);
        if (component.buffers[i].isFixed()) {
          EXPECT_EQ(offsets[i], component.buffers[i].fixedOffset);
        }
      }
      SearchResult less = search.run(least - 1, budget, offsets);
      ASSERT_NE(less, SearchResult::GaveUp) << "trial " << trial;
      fitsInLess &= less == SearchResult::Fits;
    }
    EXPECT_FALSE(anyOverlap(ranges, placement)) << "trial " << trial;
    EXPECT_FALSE(fitsInLess && least > 0) << "trial " << trial;
    aboveBound += least > lowerBound(ranges);
  }
  // Where the optimum is the bound, a search that rules out too much passes.
  EXPECT_GE(aboveBound, 3);
}

TEST(ExactSearch, PlansOfAnySizeAreValidAndAboveTheBound) {
  std::mt19937_64 random(12);
  Options quick;
  quick.nodeLimit = 200;
  for (int trial = 0; trial < trials(1000); ++trial) {
    std::vector<LiveRange> ranges = randomRanges(
        random, pick(random, 1, 40), pick(random, 2, 30), 500, trial % 2 == 0);
    if (trial % 4 < 2)
      addGapsAndOffsets(random, ranges, 2000);
    Plan result = plan(ranges, quick);
    ASSERT_FALSE(anyOverlap(ranges, result.offsets)) << "trial " << trial;
    EXPECT_EQ(validate(ranges, result), std::nullopt) << "trial " << trial;
    EXPECT_GE(result.arenaBytes, lowerBound(ranges)) << "trial " << trial;
  }
}

TEST(Conflict, IsAsSmallAsCanBe) {
  std::mt19937_64 random(11);
  int beyondBound = 0;
  for (int trial = 0; trial < trials(1500); ++trial) {
    std::vector<LiveRange> ranges = smallProblem(random, trial);
    int64_t capacity = leastArena(ranges) - 1;
    if (capacity < 0)
      continue;
    std::optional<Conflict> conflict = findConflict(ranges, capacity);
    ASSERT_TRUE(conflict) << "trial " << trial;
    EXPECT_TRUE(conflict->irreducible);
    std::vector<LiveRange> members;
    for (size_t member : conflict->members)
      members.push_back(ranges[member]);
    EXPECT_GT(leastArena(members), capacity) << "trial " << trial;
    for (size_t i = 0; i < members.size(); ++i) {
      std::vector<LiveRange> others = members;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_LE(leastArena(others), capacity) << "trial " << trial;
    }
    beyondBound += lowerBound(ranges) <= capacity;
    EXPECT_FALSE(findConflict(ranges, capacity + 1)) << "trial " << trial;
  }
  // No section shows why these do not fit.
  EXPECT_GE(beyondBound, 3);
}

TEST(Conflict, SaysNothingThatIsNotProven) {
  std::mt19937_64 random(14);
  Options none;
  none.nodeLimit = 0;
  for (int trial = 0; trial < 200; ++trial) {
    // Where some are fixed, the first look may prove it, before any node.
    std::vector<LiveRange> ranges = smallProblem(random, 2 * trial + 1);
    int64_t bound = lowerBound(ranges);
    EXPECT_FALSE(findConflict(ranges, bound, none)) << "trial " << trial;
    if (bound > 0) {
      EXPECT_TRUE(findConflict(ranges, bound - 1, none)) << "trial " << trial;
    }
  }
}

} // namespace
