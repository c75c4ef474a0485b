//===- CollectivePricesTest.cpp - Links found in a run ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/CollectivePrices.h"

#include <gtest/gtest.h>

using namespace optimus_prices;

namespace {

constexpr RankGroup kGroup = {4, 2};

/// Of 1 ms and 2 ns a byte: a broadcast goes down two levels of a tree, an
/// all-gather three times on to the next rank.
TEST(CollectivePrices, LearnLinks) {
  CollectivePrices prices{CommunicationProfile()};
  auto elsewhere = [&] {
    return prices.getSeconds(CollectiveKind::Broadcast, {4, 1}, 1000000);
  };
  const double before = elsewhere();
  const MeasuredCollective run[] = {
      {CollectiveKind::Broadcast, kGroup, 1000, 2e-3 + 2e-6},
      {CollectiveKind::Broadcast, kGroup, 1000000, 2e-3 + 2e-3},
      {CollectiveKind::AllGather, kGroup, 4000000, 3e-3 + 6e-3}};
  prices.learn(run, /*hasHostForEachRank=*/false);
  EXPECT_NEAR(prices.getSeconds(CollectiveKind::Reduce, kGroup, 500000), 3e-3,
              1e-9);
  EXPECT_NEAR(prices.getSeconds(CollectiveKind::AllReduce, kGroup, 4000000),
              6e-3 + 12e-3, 1e-9);
  // Ranks that nothing was measured among.
  EXPECT_EQ(elsewhere(), before);
}

/// Of as many ranks, between two sizes.
TEST(CollectivePrices, KnowWhatWasTimed) {
  CommunicationProfile profile;
  profile.collectives = {{.backend = "local",
                          .collective = "reduce",
                          .ranks = 4,
                          .alpha = 1,
                          .beta = 0,
                          .points = {{100, 1}, {200, 1}}}};
  const CollectivePrices prices(profile);
  auto isTimed = [&](CollectiveKind kind, int64_t ranks, double bytes) {
    return prices.hasPoints(kind, {ranks}, bytes);
  };
  EXPECT_TRUE(isTimed(CollectiveKind::Reduce, 4, 100));
  EXPECT_TRUE(isTimed(CollectiveKind::Reduce, 4, 150));
  EXPECT_FALSE(isTimed(CollectiveKind::Reduce, 4, 201));
  EXPECT_FALSE(isTimed(CollectiveKind::Reduce, 4, 99));
  EXPECT_FALSE(isTimed(CollectiveKind::Reduce, 2, 150));
  EXPECT_FALSE(isTimed(CollectiveKind::Broadcast, 4, 150));
}

/// What one rank sends to each other takes processors as long among more.
TEST(CollectivePrices, KnowWhatProcessorsSpend) {
  CommunicationProfile profile;
  profile.collectives = {{.backend = "local",
                          .collective = "reduce",
                          .ranks = 3,
                          .alpha = 1,
                          .beta = 0,
                          .processors = {{1000, 1}, {3000, 2}}}};
  const CollectivePrices prices(profile);
  auto seconds = [&](int64_t ranks, double bytes) {
    return prices.getProcessorSeconds(CollectiveKind::Reduce, {ranks}, bytes);
  };
  EXPECT_EQ(seconds(3, 10), 1);
  EXPECT_EQ(seconds(3, 2000), 1.5);
  EXPECT_EQ(seconds(3, 6000), 4);
  EXPECT_EQ(seconds(5, 2000), 3);
  EXPECT_EQ(seconds(1, 2000), 0);
  EXPECT_EQ(prices.getProcessorSeconds(CollectiveKind::Broadcast, {3}, 2000),
            0);
}

TEST(CollectivePrices, ScaleWhatIsKnownWhereCollectivesAreAlike) {
  CommunicationProfile profile;
  CollectivePrices prices(profile);
  const double expected =
      prices.getSeconds(CollectiveKind::Broadcast, kGroup, 1000000);
  const double nineTimes =
      9 * (2 * profile.linkAlpha + 1000 * profile.linkBeta);
  const MeasuredCollective run[] = {
      {CollectiveKind::Broadcast, kGroup, 1000, nineTimes}};
  prices.learn(run, false);
  EXPECT_NEAR(prices.getSeconds(CollectiveKind::Broadcast, kGroup, 1000000),
              9 * expected, 1e-9);
}

TEST(CollectivePrices, AreNeverNegative) {
  // What is larger takes less.
  CollectivePrices prices{CommunicationProfile()};
  const MeasuredCollective falling[] = {
      {CollectiveKind::Broadcast, kGroup, 1000, 2e-3},
      {CollectiveKind::Broadcast, kGroup, 1000000, 1e-3}};
  prices.learn(falling, false);
  EXPECT_GT(prices.getSeconds(CollectiveKind::Broadcast, kGroup, 1e9), 0);
  CollectivePrices others{CommunicationProfile()};
  const MeasuredCollective steep[] = {
      {CollectiveKind::Broadcast, kGroup, 1000, 1e-7},
      {CollectiveKind::Broadcast, kGroup, 1000000, 1e-3}};
  others.learn(steep, false);
  EXPECT_GT(others.getSeconds(CollectiveKind::Broadcast, kGroup, 1), 0);
}

TEST(CollectivePrices, HostsHaveOneLink) {
  for (bool hasHostForEach : {false, true}) {
    CollectivePrices prices{CommunicationProfile()};
    prices.learn({}, hasHostForEach);
    EXPECT_EQ(prices.getProfile().axesShareLink, hasHostForEach);
  }
}

} // namespace
