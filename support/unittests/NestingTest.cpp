//===- NestingTest.cpp - How deep a text is nested ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Nesting.h"

#include <gtest/gtest.h>

using namespace optimus_support;

namespace {

std::string repeat(const std::string &text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i)
    result += text;
  return result;
}

TEST(Nesting, CountsWhatIsOpen) {
  EXPECT_TRUE(checkNesting(repeat("{\"a\": [", 2), "f", 4).ok());
  EXPECT_TRUE(checkNesting(repeat("[]", 1000), "f", 4).ok());
  Status deep = checkNesting("{\n" + repeat("[", 4), "f", 4);
  EXPECT_EQ(deep.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(deep.message(), "f:2: brackets are nested deeper than 4 levels");
  EXPECT_FALSE(checkNesting(repeat("tensor<", 5), "f", 4).ok());
}

TEST(Nesting, StringsAndCommentsDoNotCount) {
  EXPECT_TRUE(checkNesting("\"[[[\\\"[[[\" // [[[[[\n[", "f", 1).ok());
  EXPECT_TRUE(checkNesting(repeat("d0 <= 3, ", 9), "f", 1).ok());
  EXPECT_TRUE(checkNesting(repeat("(f32) -> (f32)\n", 100), "f", 1).ok());
  // An unfinished string ends with its line.
  EXPECT_FALSE(checkNesting("\"[[\n[[", "f", 1).ok());
  EXPECT_TRUE(checkNesting("\"\\", "f", 1).ok());
}

TEST(Nesting, WhatIsClosedTooOftenIsNoCredit) {
  EXPECT_FALSE(checkNesting("]]]]]][[", "f", 1).ok());
}

} // namespace
