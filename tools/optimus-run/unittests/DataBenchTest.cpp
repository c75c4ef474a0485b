//===- DataBenchTest.cpp - What data cost a step --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataBench.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using optimus_run::DataTimes;

TEST(DataBench, ADiskStallsUntilEnoughIsInMemory) {
  DataTimes times{.step = 10, .fetchCold = 30, .fetchWarm = 2};
  times.preparation = 1;
  EXPECT_DOUBLE_EQ(times.predict(0), 31);
  EXPECT_DOUBLE_EQ(times.stall(0), 21.0 / 31);
  EXPECT_DOUBLE_EQ(times.predict(0.5), 17);
  EXPECT_DOUBLE_EQ(times.predict(1), 10);
  EXPECT_DOUBLE_EQ(times.stall(1), 0);
  // 0.75 * 2 + 0.25 * 30 + 1.
  EXPECT_DOUBLE_EQ(times.shareNeeded(), 0.75);
  EXPECT_DOUBLE_EQ(times.predict(0.75), 10);
  const auto json = dataTimesToJson(times);
  ASSERT_EQ(json["predicted"].size(), 5u);
  EXPECT_EQ(json["predicted"][2]["share_in_memory"], 0.5);
  EXPECT_EQ(json["predicted"][2]["step_ms"], 17);
}

TEST(DataBench, WhatIsReadInTimeStallsNothing) {
  DataTimes times{.step = 10, .fetchCold = 8, .fetchWarm = 2};
  EXPECT_EQ(times.shareNeeded(), 0);
  EXPECT_EQ(times.stall(0), 0);
  times.preparation = 9;
  EXPECT_EQ(times.shareNeeded(), 2);
  EXPECT_DOUBLE_EQ(times.predict(1), 11);
}
