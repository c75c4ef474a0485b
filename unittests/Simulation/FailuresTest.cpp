//===- FailuresTest.cpp - What failures leave of the time -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Failures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace optimus_simulation;

namespace {

std::string whyRefused(const std::string &text) {
  auto failures = parseFailures(text);
  return failures.ok() ? "" : failures.status().message();
}

TEST(Failures, ReadsTimes) {
  auto failures = parseFailures("restart=5min,mtbf=3.1h,checkpoint=30s");
  ASSERT_TRUE(failures.ok()) << failures.status().message();
  EXPECT_DOUBLE_EQ(failures->meanBetween, 11160);
  EXPECT_EQ(failures->checkpoint, 30);
  EXPECT_EQ(failures->restart, 300);
  EXPECT_EQ(whyRefused("mtbf=3h,checkpoint=1s"),
            "expected mtbf=TIME, checkpoint=TIME and restart=TIME, found "
            "'mtbf=3h,checkpoint=1s'");
  EXPECT_EQ(whyRefused("mtfb=3h"),
            "expected mtbf, checkpoint or restart, found "
            "'mtfb'; did you mean 'mtbf'?");
  for (const char *time : {"", "3", "0s", "-1h", "nans", "infh", "1e99d", "1w"})
    EXPECT_EQ(whyRefused(std::string("mtbf=") + time),
              "expected a time from 1e-3s to 1000 years in s, min, h or d, as "
              "3.1h, found '" +
                  std::string(time) + "'");
}

TEST(Failures, TheBestIntervalIsOfYoungsFormulaWhereThatHolds) {
  for (double checkpoint : {1., 5., 20.}) {
    const Failures failures{11160, checkpoint, 300};
    EXPECT_NEAR(getBestGoodput(failures).interval /
                    std::sqrt(2 * checkpoint * failures.meanBetween),
                1, .05)
        << checkpoint;
  }
}

TEST(Failures, NoOtherIntervalIsBetter) {
  // Where a checkpoint takes as long as work between failures, too.
  for (double checkpoint : {1., 1e3, 3e4}) {
    const Failures failures{1e4, checkpoint, 100};
    const Goodput best = getBestGoodput(failures);
    EXPECT_GT(best.share, 0);
    EXPECT_LT(best.share, 1);
    for (double factor : {.5, .9, .99, 1.01, 1.1, 2.})
      EXPECT_LT(getGoodputShare(failures, factor * best.interval), best.share);
  }
}

/// The share of a run that draws its failures.
double drawShare(const Failures &failures, double interval, int64_t count) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> draw(1 / failures.meanBetween);
  double time = 0;
  for (int64_t done = 0; done != count;) {
    const double next = draw(random);
    if (next >= interval + failures.checkpoint) {
      time += interval + failures.checkpoint;
      ++done;
      continue;
    }
    time += next;
    // A restart fails, too.
    for (double again = draw(random);; again = draw(random)) {
      time += std::min(again, failures.restart);
      if (again >= failures.restart)
        break;
    }
  }
  return double(count) * interval / time;
}

TEST(Failures, TheShareIsThatOfDrawnFailures) {
  const Failures failures{1000, 50, 100};
  // The draws' deviation is 1 / sqrt(count) of an interval's mean or less.
  for (double interval : {100., 316., 1500.})
    EXPECT_NEAR(drawShare(failures, interval, 100000) /
                    getGoodputShare(failures, interval),
                1, .02)
        << interval;
}

} // namespace
