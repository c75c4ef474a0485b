//===- StatusTest.cpp - The outcome of an operation -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Status.h"

#include <gtest/gtest.h>

#include <memory>

using namespace optimus_support;

TEST(Status, SuccessIsTheDefault) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::Ok);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.exitCode(), 0);
  EXPECT_EQ(status.toString(), "ok");
}

TEST(Status, KeepsCodeMessageAndLine) {
  Status status = dataLoss("the file is short");
  int line = __LINE__ - 1;
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_EQ(status.message(), "the file is short");
  EXPECT_EQ(status.file(), "StatusTest.cpp");
  EXPECT_EQ(status.line(), line);
  EXPECT_EQ(status.toString(), concat("data loss: the file is short "
                                      "[StatusTest.cpp:",
                                      line, "]"));
}

TEST(Status, ExitCodesTellTheUsersFaultsFromOurs) {
  EXPECT_EQ(invalidArgument("").exitCode(), 1);
  EXPECT_EQ(dataLoss("").exitCode(), 1);
  EXPECT_EQ(unavailable("").exitCode(), 1);
  EXPECT_EQ(internal("").exitCode(), 2);
}

TEST(Status, ContextPrecedesTheMessage) {
  Status status = internal("no axis");
  Status outer = status.withContext("rank 3");
  EXPECT_EQ(outer.message(), "rank 3: no axis");
  EXPECT_EQ(outer.code(), StatusCode::Internal);
  EXPECT_EQ(outer.line(), status.line());
  EXPECT_TRUE(okStatus().withContext("rank 3").ok());
}

TEST(Status, AdviceFollowsTheMessage) {
  Status status = unavailable("no room");
  EXPECT_EQ(status.withAdvice("make some").message(), "no room; make some");
  EXPECT_EQ(status.withAdvice("make some").code(), StatusCode::Unavailable);
  EXPECT_EQ(status.withAdvice("").message(), "no room");
  EXPECT_TRUE(okStatus().withAdvice("make some").ok());
}

static StatusOr<std::unique_ptr<int>> makeEven(int value) {
  if (value % 2)
    return invalidArgument(concat(value, " is odd"));
  return std::make_unique<int>(value);
}

static StatusOr<int> half(int value) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<int> even, makeEven(value));
  OPTRT_RETURN_IF_ERROR(*even < 100 ? okStatus() : internal("too large"));
  return *even / 2;
}

TEST(StatusOr, CarriesValuesAndFailuresThroughTheMacros) {
  StatusOr<int> four = half(8);
  ASSERT_TRUE(four.ok());
  EXPECT_EQ(*four, 4);
  EXPECT_TRUE(four.status().ok());

  StatusOr<int> odd = half(7);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.status().message(), "7 is odd");
  EXPECT_EQ(half(200).status().code(), StatusCode::Internal);
}
