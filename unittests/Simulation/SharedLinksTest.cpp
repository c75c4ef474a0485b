//===- SharedLinksTest.cpp - Flows that share links -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedLinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

using namespace optimus_simulation;
using testing::ElementsAre;

namespace {

constexpr Picoseconds kSecond = 1'000'000'000'000;

TEST(SharedLinks, ShareFairly) {
  // Of the header's example: 40 bytes of a, and 4 of b and c each.
  SharedLinks links({10, 4});
  const LinkLoads a{{0, 1}}, b{{0, 1}, {1, 1}}, c{{1, 1}};
  links.add(0, {0, 40, &a});
  links.add(0, {1, 4, &b});
  links.add(0, {2, 4, &c});
  EXPECT_TRUE(links.advance().empty());
  EXPECT_THAT(links.advance(), ElementsAre(1, 2));
  EXPECT_EQ(links.getTime(), 2 * kSecond);
  // 16 of the 40 bytes have come; then 10 a second.
  EXPECT_THAT(links.advance(), ElementsAre(0));
  EXPECT_EQ(links.getTime(), 2 * kSecond + 24 * kSecond / 10);
  EXPECT_TRUE(links.isIdle());
  EXPECT_DOUBLE_EQ(links.getCarried(0), 44);
  EXPECT_DOUBLE_EQ(links.getCarried(1), 8);
}

TEST(SharedLinks, LaterFlowsSlowEarlierOnes) {
  SharedLinks links({10});
  const LinkLoads once{{0, 1}}, twice{{0, 2}};
  links.add(0, {0, 20, &once});
  links.add(kSecond, {1, 5, &twice});
  EXPECT_TRUE(links.advance().empty());
  EXPECT_TRUE(links.advance().empty());
  EXPECT_EQ(links.getTime(), kSecond);
  // Both at 10/3 a second: the second ends first, after 1.5 seconds.
  EXPECT_THAT(links.advance(), ElementsAre(1));
  EXPECT_NEAR(double(links.getTime()), 2.5 * double(kSecond), 1);
  EXPECT_THAT(links.advance(), ElementsAre(0));
  EXPECT_NEAR(double(links.getTime()), 3.0 * double(kSecond), 2);
}

TEST(SharedLinks, NothingToCarryTakesNoTime) {
  SharedLinks links({10});
  const LinkLoads none, one{{0, 1}};
  links.add(5, {0, 8, &none});
  links.add(5, {1, 0, &one});
  EXPECT_THAT(links.advance(), ElementsAre(0, 1));
  EXPECT_EQ(links.getTime(), 5);
}

/// What makes rates max-min fair: every flow has a full link on which no flow
/// is faster. At the first event all flows have begun, and their bytes until
/// the first of them ends tell the rates.
TEST(SharedLinks, EveryFlowIsLimitedByAFullLink) {
  for (unsigned seed = 0; seed != 200; ++seed) {
    std::mt19937 random(seed);
    const unsigned numLinks = 2 + random() % 6, numFlows = 1 + random() % 8;
    std::vector<double> capacities;
    for (unsigned link = 0; link != numLinks; ++link)
      capacities.push_back(1 + random() % 100);
    std::vector<LinkLoads> loads(numFlows);
    for (LinkLoads &one : loads)
      for (uint32_t link = 0; link != numLinks; ++link)
        if (random() % 2 || link == numLinks - 1)
          one.push_back({link, 0.25 * double(1 + random() % 8)});
    // As many links of their own tell the rate of each flow.
    for (unsigned flow = 0; flow != numFlows; ++flow) {
      capacities.push_back(1e9);
      loads[flow].push_back({numLinks + flow, 1});
    }
    SharedLinks links(capacities);
    for (unsigned flow = 0; flow != numFlows; ++flow)
      links.add(0, {flow, 1e6, &loads[flow]});
    ASSERT_TRUE(links.advance().empty());
    ASSERT_FALSE(links.advance().empty());
    const double seconds = double(links.getTime()) * 1e-12;
    auto getRate = [&](unsigned flow) {
      return links.getCarried(numLinks + flow) / seconds;
    };
    constexpr double kSlack = 1e-6;
    std::vector<bool> isFull(numLinks);
    for (unsigned link = 0; link != numLinks; ++link) {
      const double used = links.getCarried(link) / seconds;
      EXPECT_LE(used, capacities[link] * (1 + kSlack)) << seed;
      isFull[link] = used > capacities[link] * (1 - kSlack);
    }
    for (unsigned flow = 0; flow != numFlows; ++flow) {
      bool isLimited = false;
      for (const LinkLoad &load : loads[flow]) {
        if (load.link >= numLinks || !isFull[load.link])
          continue;
        bool isFastest = true;
        for (unsigned other = 0; other != numFlows; ++other)
          for (const LinkLoad &its : loads[other])
            isFastest &= its.link != load.link ||
                         getRate(other) <= getRate(flow) * (1 + kSlack);
        isLimited |= isFastest;
      }
      EXPECT_TRUE(isLimited) << "seed " << seed << ", flow " << flow;
    }
  }
}

/// From half of its time on at a quarter of its rate, then as before.
TEST(SharedLinks, MayBeLimitedMeanwhile) {
  SharedLinks links({10});
  const LinkLoads one{{0, 1}};
  links.add(0, {7, 20, &one});
  EXPECT_TRUE(links.advance().empty());
  links.limit(kSecond, 7, 2.5);
  EXPECT_NEAR(double(links.getNext()), 5.0 * double(kSecond), 1);
  links.limit(3 * kSecond, 7, 1e30);
  EXPECT_NEAR(double(links.getNext()), 3.5 * double(kSecond), 1);
  // Before it begins, and of others, too.
  links.add(3 * kSecond, {8, 10, &one});
  links.limit(3 * kSecond, 8, 0.5);
  links.limit(3 * kSecond, 9, 0.5);
  EXPECT_TRUE(links.advance().empty());
  EXPECT_NEAR(double(links.getNext()), 3 * double(kSecond) + 1e12 * 5 / 9.5, 2);
}

} // namespace
