//===- HyperparametersTest.cpp - What a run is trained with ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Hyperparameters.h"

#include <gtest/gtest.h>

#include <cmath>
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
  EXPECT_EQ(names.size(), 11u);
  EXPECT_EQ(listHyperparameters(hyper)[4].first.flag(), "--weight-decay");
}

TEST(Hyperparameters, NumbersAreReadAsTheyWerePrinted) {
  RealNumber any{"", 0, 1e30};
  for (double value : {0.1, 1e-3, 3e-4, 1.0 / 3, 0.95, 12345678.9})
    EXPECT_EQ(any.parse(RealNumber::print(value)), value);
}

TEST(Hyperparameters, OnlyAClipOfNoneIsInfinite) {
  Hyperparameters hyper;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &) {
        auto none = values.parse("none");
        EXPECT_EQ(none.has_value(), info.name == std::string("clip"));
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
