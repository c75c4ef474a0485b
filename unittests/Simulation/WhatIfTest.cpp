//===- WhatIfTest.cpp - What differs from the program ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/WhatIf.h"

#include "optimus-support/Philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace optimus_simulation;
using testing::ElementsAre;

namespace {

template <typename T>
std::string messageOf(const optimus_support::StatusOr<T> &result) {
  return result.ok() ? "" : result.status().message();
}

TEST(WhatIf, ReadsStragglers) {
  auto straggler = parseStraggler("3=1.5", /*ranks=*/4);
  ASSERT_TRUE(straggler.ok()) << straggler.status().message();
  EXPECT_EQ(straggler->rank, 3);
  EXPECT_EQ(straggler->factor, 1.5);
  EXPECT_EQ(messageOf(parseStraggler("4=2", 4)),
            "expected a rank from 0 to 3, found '4'");
  EXPECT_EQ(messageOf(parseStraggler("-1=2", 4)),
            "expected a rank from 0 to 3, found '-1'");
  EXPECT_EQ(messageOf(parseStraggler("3", 4)),
            "expected RANK=FACTOR, found '3'");
  for (const char *factor : {"", "0", "-1", "nan", "inf", "1e7", "2x"})
    EXPECT_EQ(messageOf(parseStraggler(std::string("1=") + factor, 4)),
              "expected a factor from 1e-6 to 1e6, found '" +
                  std::string(factor) + "'");
}

TEST(WhatIf, DrawsEveryRank) {
  auto spread = parseSpread("spread=0.1,seed=7");
  ASSERT_TRUE(spread.ok()) << spread.status().message();
  // Logarithms of factors have the spread, and 0 in the mean.
  constexpr int kRanks = 4096;
  double sum = 0, squares = 0;
  for (int rank = 0; rank != kRanks; ++rank) {
    const double z = std::log(spread->getFactor(rank)) / 0.1;
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / kRanks, 0, 0.05);
  EXPECT_NEAR(squares / kRanks, 1, 0.07);
  EXPECT_EQ(spread->getFactor(3),
            std::exp(0.1 * optimus_support::normal(7, 0, 0, 3)));
  EXPECT_EQ(spread->getFactor(3),
            parseSpread("seed=7,spread=0.1")->getFactor(3));
  EXPECT_NE(spread->getFactor(3), parseSpread("spread=0.1")->getFactor(3));
  WhatIf both{.stragglers = {{3, 2}}, .spreads = {*spread}};
  EXPECT_EQ(both.getFactor(3), 2 * spread->getFactor(3));
  EXPECT_EQ(both.getFactor(2), spread->getFactor(2));
  for (const char *text : {"spread=3", "seed=1", "spread=0"})
    EXPECT_EQ(messageOf(parseSpread(text)),
              "expected a spread from 1e-06 to 2, found '" + std::string(text) +
                  "'");
  EXPECT_EQ(messageOf(parseSpread("spread=nan")),
            "expected a number from 0, found 'nan'");
  EXPECT_EQ(messageOf(parseSpread("spread=1,seed=0.5")),
            "expected a whole number for a seed, found 'spread=1,seed=0.5'");
}

TEST(WhatIf, ReadsScalings) {
  // A path may have a sign of its own.
  auto scaling = parseScaling("h.*=x=0.5", /*ranks=*/4);
  ASSERT_TRUE(scaling.ok()) << scaling.status().message();
  EXPECT_EQ(scaling->pattern, "h.*=x");
  EXPECT_EQ(scaling->factor, 0.5);
  EXPECT_EQ(scaling->rank, kAllRanks);
  EXPECT_EQ(messageOf(parseScaling("=2", 4)),
            "expected GLOB=FACTOR, found '=2'");
  auto ofRank = parseScaling("rank=3/h.*=2", 4);
  ASSERT_TRUE(ofRank.ok()) << ofRank.status().message();
  EXPECT_EQ(ofRank->pattern, "h.*");
  EXPECT_EQ(ofRank->rank, 3);
  EXPECT_EQ(messageOf(parseScaling("rank=4/h.*=2", 4)),
            "expected a rank from 0 to 3, found '4'");
  EXPECT_EQ(messageOf(parseScaling("rank=1/=2", 4)), "expected GLOB, found ''");
}

TEST(WhatIf, ReadsInsertions) {
  auto insertion = parseInsertion("rank=1/gemm=20us", /*ranks=*/4);
  ASSERT_TRUE(insertion.ok()) << insertion.status().message();
  EXPECT_EQ(insertion->pattern, "gemm");
  EXPECT_EQ(insertion->rank, 1);
  EXPECT_DOUBLE_EQ(insertion->seconds, 20e-6);
  for (const char *time : {"20", "0us", "nanms", "2h", "-1s"})
    EXPECT_EQ(messageOf(parseInsertion(std::string("gemm=") + time, 4)),
              "expected a time from 1ns to 3600s in ns, us, ms or s, as 20us, "
              "found '" +
                  std::string(time) + "'");
}

TEST(WhatIf, ReadsBuckets) {
  auto bucket = parseBucket("* backward=25MiB");
  ASSERT_TRUE(bucket.ok()) << bucket.status().message();
  EXPECT_EQ(bucket->pattern, "* backward");
  EXPECT_EQ(bucket->bytes, 25 << 20);
  for (const char *size : {"25", "0B", "nanB", "2TiB", "-1KiB"})
    EXPECT_EQ(messageOf(parseBucket(std::string("reduce=") + size)),
              "expected a size from 1B to 1024GiB in B, KiB, MiB or GiB, as "
              "25MiB, found '" +
                  std::string(size) + "'");
}

TEST(WhatIf, ReadsNetworks) {
  auto network = parseNetworkChange("latency=0.5,bandwidth=4");
  ASSERT_TRUE(network.ok()) << network.status().message();
  EXPECT_EQ(network->latency, 0.5);
  EXPECT_EQ(network->bandwidth, 4);
  EXPECT_EQ(parseNetworkChange("bandwidth=2")->latency, 1);
  EXPECT_EQ(messageOf(parseNetworkChange("bandwith=2")),
            "expected bandwidth or latency, found 'bandwith'; did you mean "
            "'bandwidth'?");
  EXPECT_EQ(messageOf(parseNetworkChange("latency=1,latency=2")),
            "expected latency once, found it twice");
  EXPECT_EQ(messageOf(parseNetworkChange("latency=1,")),
            "expected bandwidth=FACTOR or latency=FACTOR, found ''");
}

TEST(WhatIf, ChangesLinksAndWhatWasMeasured) {
  optimus_prices::CommunicationProfile profile;
  profile.linkAlpha = 2;
  profile.linkBeta = 3;
  profile.tiers = {{.ranks = 8, .alpha = 2, .beta = 3}};
  profile.collectives = {{.backend = "local",
                          .collective = "reduce",
                          .ranks = 2,
                          .alpha = 4,
                          .beta = 5,
                          .points = {{1, 3}, {2, 10}}}};
  changeNetwork(profile, {.bandwidth = 2, .latency = 0.5});
  EXPECT_EQ(profile.linkAlpha, 1);
  EXPECT_EQ(profile.linkBeta, 1.5);
  EXPECT_EQ(profile.tiers[0].alpha, 1);
  EXPECT_EQ(profile.tiers[0].beta, 1.5);
  EXPECT_EQ(profile.collectives[0].alpha, 2);
  EXPECT_EQ(profile.collectives[0].beta, 2.5);
  // 3 are all start-up; of 10, 4 are.
  EXPECT_THAT(profile.collectives[0].points,
              ElementsAre(std::pair(1.0, 1.5), std::pair(2.0, 2.0 + 3.0)));
}

TEST(WhatIf, SaysWhatDiffers) {
  EXPECT_TRUE(WhatIf().describe().empty());
  WhatIf all{.stragglers = {{2, 1.5}},
             .spreads = {{0.1, 7}},
             .scalings = {{"gemm", 0.5}, {"h.0.*", 0, /*rank=*/1}},
             .insertions = {{"copy", 2e-3}},
             .fusions = {{"add_*"}},
             .buckets = {{"* backward", 1024}},
             .priorities = {{"all_*"}},
             .network = {.bandwidth = 2, .latency = 3},
             .device = "h200x8",
             .overlap = Overlap::None};
  EXPECT_THAT(all.describe(),
              ElementsAre("rank 2 computes 1.5 times as long",
                          "ranks compute e^(0.1 z) times as "
                          "long, with z drawn by seed 7",
                          "'gemm' takes 0.5 times as long",
                          "'h.0.*' of rank 1 takes no time",
                          "2 ms are computed before 'copy'",
                          "neighbours among 'add_*' are one "
                          "kernel",
                          "neighbours among '* backward' move "
                          "together up to 1024 bytes",
                          "of 'all_*' that wait for links the first layer's "
                          "go first",
                          "links have 2 times the bandwidth",
                          "links have 3 times the latency",
                          "devices are those of h200x8", "nothing overlaps"));
}

} // namespace
