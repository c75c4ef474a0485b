//===- LearningRateTest.cpp - The learning rate of each step --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LearningRate.h"

#include <gtest/gtest.h>

using optimus_run::LearningRate;

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

} // namespace
