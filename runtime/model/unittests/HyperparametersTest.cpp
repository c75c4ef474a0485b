//===- HyperparametersTest.cpp - What a run is trained with ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Hyperparameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

using namespace optrt;

namespace {

TEST(LearningRate, WarmsUpLinearlyToThePeak) {
  LearningRate rate{0.4, LearningRate::Schedule::Constant, 4};
  EXPECT_DOUBLE_EQ(rate.at(1, 100), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(2, 100), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(4, 100), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(100, 100), 0.4);
}

TEST(LearningRate, CosineEndsAtATenth) {
  LearningRate rate{1.0, LearningRate::Schedule::Cosine, 10};
  EXPECT_DOUBLE_EQ(rate.at(10, 110), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(60, 110), 0.55);
  EXPECT_DOUBLE_EQ(rate.at(110, 110), 0.1);
}

TEST(LearningRate, AWarmUpLongerThanTheRunIsAllowed) {
  LearningRate rate{1.0, LearningRate::Schedule::Cosine, 10};
  EXPECT_DOUBLE_EQ(rate.at(5, 5), 0.5);
}

TEST(LearningRate, WithoutWarmUpTheFirstStepOfAConstantHasThePeak) {
  LearningRate rate{0.25, LearningRate::Schedule::Constant, 0};
  EXPECT_DOUBLE_EQ(rate.at(1, 1), 0.25);
}

/// What the rate was before it could have a minimum and other schedules.
double cosineToATenth(double peak, int64_t warmup, int64_t step,
                      int64_t steps) {
  if (step < warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (steps <= warmup)
    return peak;
  double progress = std::min(1.0, static_cast<double>(step - warmup) /
                                      static_cast<double>(steps - warmup));
  double floor = 0.1 * peak;
  return floor +
         0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - floor);
}

TEST(LearningRate, CosineHasTheBitsThatItHad) {
  for (double peak : {1e-3, 3e-4, 0.7, 1.0 / 3})
    for (int64_t warmup : {0, 1, 7, 300, 500})
      for (int64_t step = 1; step <= 310; ++step)
        EXPECT_EQ(
            (LearningRate{peak, LearningRate::Schedule::Cosine, warmup}.at(
                step, 300)),
            cosineToATenth(peak, warmup, step, 300));
}

TEST(LearningRate, FallsAlongALine) {
  LearningRate rate{1.0, LearningRate::Schedule::Linear, 10, 0.2};
  EXPECT_DOUBLE_EQ(rate.at(5, 110), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(10, 110), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(60, 110), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(110, 110), 0.2);
  // And stays there.
  rate.decaySteps = 50;
  EXPECT_DOUBLE_EQ(rate.at(35, 110), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(60, 110), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(100, 110), 0.2);
}

TEST(LearningRate, WsdFallsInTheEnd) {
  LearningRate rate{1.0, LearningRate::Schedule::Wsd, 10, 0.0};
  for (int64_t step : {10, 50, 180})
    EXPECT_DOUBLE_EQ(rate.at(step, 200), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(190, 200), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(200, 200), 0.0);
  rate.decaySteps = 100;
  EXPECT_DOUBLE_EQ(rate.at(125, 200), 0.75);
  // Not before the warm-up's end.
  rate.decaySteps = 1000;
  EXPECT_DOUBLE_EQ(rate.at(5, 200), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(105, 200), 0.5);
}

TEST(LearningRate, InverseSqrtFallsForEver) {
  LearningRate rate{1.0, LearningRate::Schedule::InverseSqrt, 100};
  EXPECT_DOUBLE_EQ(rate.at(100, 1'000'000), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(400, 1'000'000), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1'000'000, 1'000'000), 0.01);
  rate.minimum = 0.25;
  EXPECT_DOUBLE_EQ(rate.at(10'000, 1'000'000), 0.25);
  rate = {1.0, LearningRate::Schedule::InverseSqrt, 0};
  EXPECT_DOUBLE_EQ(rate.at(1, 100), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(4, 100), 0.5);
  // From where it is.
  rate.decaySteps = 64;
  EXPECT_DOUBLE_EQ(rate.at(36, 100), 1.0 / 6);
  EXPECT_DOUBLE_EQ(rate.at(68, 100), 1.0 / 12);
  EXPECT_DOUBLE_EQ(rate.at(100, 100), 0.0);
}

TEST(LearningRate, ALowestAboveThePeakIsRefused) {
  Hyperparameters hyper;
  EXPECT_TRUE(checkHyperparameters(hyper).ok());
  hyper.rate.minimum = hyper.rate.peak;
  EXPECT_TRUE(checkHyperparameters(hyper).ok());
  hyper.rate.minimum = 0.5;
  EXPECT_EQ(checkHyperparameters(hyper).message(),
            "min-lr: expected at most lr, which is 0.001, found 0.5");
}

TEST(Hyperparameters, EachIsListedOnceWithValuesThatItMayHave) {
  Hyperparameters hyper;
  std::set<std::string> names;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &field) {
        EXPECT_TRUE(names.insert(info.name).second) << info.name;
        // The default is one of them, and is read as it is printed.
        EXPECT_EQ(values.parse(values.print(field)), field) << info.name;
        EXPECT_FALSE(values.parse("").has_value());
        EXPECT_FALSE(values.parse("nan").has_value());
        EXPECT_FALSE(values.parse("inf").has_value());
        EXPECT_FALSE(values.parse(values.print(field) + "x").has_value());
      },
      hyper);
  EXPECT_EQ(names.size(), 13u);
  EXPECT_EQ(listHyperparameters(hyper)[6].first.flag(), "--weight-decay");
}

TEST(Hyperparameters, NumbersAreReadAsTheyWerePrinted) {
  RealNumber any{"", 0, 1e30};
  for (double value : {0.1, 1e-3, 3e-4, 1.0 / 3, 0.95, 12345678.9})
    EXPECT_EQ(any.parse(RealNumber::print(value)), value);
}

TEST(Hyperparameters, NoneIsInfinite) {
  Hyperparameters hyper;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &) {
        auto none = values.parse("none");
        EXPECT_EQ(none.has_value(), info.name == std::string("clip") ||
                                        info.name == std::string("min_lr"));
        if constexpr (std::is_same_v<decltype(none), std::optional<double>>) {
          if (none) {
            EXPECT_TRUE(std::isinf(*none));
            EXPECT_TRUE(values.contains(*none));
            EXPECT_EQ(values.print(*none), "none");
          }
        }
      },
      hyper);
}

} // namespace
