//===- JsonRowsTest.cpp - Rows of numbers as JSON -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "profile/JsonRows.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace {

TEST(JsonRows, HasRowsSinceItWasCleared) {
  JsonRows rows;
  EXPECT_EQ(rows.get(), "");
  rows.add(0, 120);
  EXPECT_EQ(rows.get(), "[[0,120]]");
  rows.add(150, -4);
  EXPECT_EQ(rows.get(), "[[0,120],[150,-4]]");
  rows.clear();
  EXPECT_EQ(rows.get(), "");
  rows.add(7u, 8, 9);
  EXPECT_EQ(rows.get(), "[[7,8,9]]");
}

TEST(JsonRows, HasRoomForEveryNumber) {
  constexpr int kRows = 1000;
  for (int64_t number : {INT64_MIN, INT64_MAX}) {
    JsonRows rows;
    std::vector<std::vector<int64_t>> expected;
    for (int i = 0; i != kRows; ++i) {
      rows.add(number, number, number);
      expected.push_back({number, number, number});
    }
    EXPECT_EQ(nlohmann::json::parse(rows.get()), nlohmann::json(expected));
  }
}

} // namespace
