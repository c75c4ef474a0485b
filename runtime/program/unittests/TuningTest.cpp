//===- TuningTest.cpp - Tuned products as text ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Tuning.h"

#include <gmock/gmock.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

TEST(Tuning, IsReadAsItWasWritten) {
  Tuning tuning{"a \"GPU\"", {}};
  tuning.products["m=1"] = {"00ff", 1.0 / 3};
  tuning.products["m=2"] = {"1234", 2e-7};
  StatusOr<Tuning> read = Tuning::parse(tuning.toJson());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->machine, tuning.machine);
  ASSERT_EQ(read->products.size(), 2u);
  EXPECT_EQ(read->products["m=1"].algorithm, "00ff");
  EXPECT_EQ(read->products["m=1"].seconds, 1.0 / 3);
  EXPECT_EQ(read->toJson(), tuning.toJson());
}

TEST(Tuning, WhatIsSomethingElseIsRefused) {
  const std::string begin = R"({"optimus_tuning": 1, "machine": "x", )";
  const std::pair<std::string, const char *> mistakes[] = {
      {"", "expected a JSON object"},
      {"[1]", "expected a JSON object"},
      {std::string(100, '['), "expected a JSON object"},
      {begin, "expected a JSON object"},
      {"{}", "\"optimus_tuning\": 1, found none"},
      {R"({"version": 1, "gemm": []})", "\"optimus_tuning\": 1, found none"},
      {R"({"optimus_tuning": 2})", "\"optimus_tuning\": 1, found 2"},
      {R"({"optimus_tuning": 1, "products": []})", "expected the text"},
      {begin + R"("products": {}})", "expected the text"},
      {begin + R"("products": [7]})", "product 0: expected the texts"},
      {begin + R"("products": [{"product": "m", "algorithm": "1"}]})",
       "product 0: expected the texts"},
      {begin + R"("products": [{"product": "m", "algorithm": 1,
                                "seconds": 1}]})",
       "product 0: expected the texts"},
      {begin + R"("products": [{"product": "m", "algorithm": "1",
                                "seconds": -1}]})",
       "product 0: expected the texts"},
      {begin + R"("products": [
         {"product": "m", "algorithm": "1", "seconds": 1},
         {"product": "m", "algorithm": "2", "seconds": 1}]})",
       "lists m twice"}};
  for (const auto &[text, message] : mistakes) {
    const StatusOr<Tuning> read = Tuning::parse(text);
    EXPECT_EQ(read.status().code(), StatusCode::InvalidArgument) << text;
    EXPECT_THAT(read.status().message(), HasSubstr(message)) << text;
  }
}

} // namespace
