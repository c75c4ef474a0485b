//===- BenchmarkTest.cpp - The instances of minimalloc --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace optimus_planning;

namespace {

/// In the name of every file: a plan of this size is known to exist.
constexpr int64_t kCapacity = 1048576;

std::vector<LiveRange> load(char instance) {
  std::string path =
      std::string(OPTIMUS_MINIMALLOC_DATA "/") + instance + ".1048576.csv";
  std::ifstream file(path);
  std::vector<LiveRange> ranges;
  EXPECT_EQ(readLiveRanges(file, path, ranges), std::nullopt);
  EXPECT_GT(ranges.size(), 100u);
  return ranges;
}

class Minimalloc : public testing::TestWithParam<char> {};

TEST_P(Minimalloc, PortfolioIsValid) {
  std::vector<LiveRange> ranges = load(GetParam());
  Options portfolio;
  portfolio.nodeLimit = 0;
  Plan result = plan(ranges, portfolio);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  EXPECT_LE(result.lowerBound, kCapacity);
  // The instances are made to be hard: nothing may be taken from this but that
  // the portfolio is not absurd.
  EXPECT_LE(result.arenaBytes, 2 * kCapacity);
  RecordProperty("arena", std::to_string(result.arenaBytes));
}

INSTANTIATE_TEST_SUITE_P(All, Minimalloc,
                         testing::Values('A', 'B', 'C', 'D', 'E', 'F', 'G', 'H',
                                         'I', 'J', 'K'),
                         [](const auto &info) {
                           return std::string(1, info.param);
                         });

class MinimallocSearch : public testing::TestWithParam<char> {};

TEST_P(MinimallocSearch, MeetsTheCapacityWithinTheDefaultNodeLimit) {
  std::vector<LiveRange> ranges = load(GetParam());
  Options options;
  options.capacity = kCapacity;
  Plan result = plan(ranges, options);
  EXPECT_EQ(validate(ranges, result), std::nullopt);
  EXPECT_LE(result.arenaBytes, kCapacity);
  EXPECT_EQ(result.order, "search");
}

INSTANTIATE_TEST_SUITE_P(All, MinimallocSearch,
                         testing::Values('A', 'B', 'C', 'D', 'E', 'F', 'G', 'H',
                                         'I', 'J', 'K'),
                         [](const auto &info) {
                           return std::string(1, info.param);
                         });

} // namespace
