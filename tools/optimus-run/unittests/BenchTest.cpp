//===- BenchTest.cpp - optimus-run bench ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

using testing::HasSubstr;

namespace {

using Bench = ProgramTest;

TEST_F(Bench, WritesJson) {
  Outcome outcome = runProgram("bench " + toy("toy3") +
                               " --steps 7 --warmup 0 --json "
                               "--threads-per-rank 1");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  // A warning may stand before it.
  auto report =
      nlohmann::json::parse(outcome.out.substr(outcome.out.find('{')));
  EXPECT_EQ(report["ranks"], 3);
  EXPECT_EQ(report["threads_per_rank"], 1);
  EXPECT_EQ(report["steps"], 7);
  const auto &ms = report["ms"];
  EXPECT_GT(ms["min"], 0);
  EXPECT_LE(ms["min"], ms["lower_quartile"]);
  EXPECT_LE(ms["lower_quartile"], ms["median"]);
  EXPECT_LE(ms["median"], ms["upper_quartile"]);
  EXPECT_LE(ms["upper_quartile"], ms["max"]);
  EXPECT_LE(ms["min"], ms["mean"]);
  EXPECT_LE(ms["mean"], ms["max"]);
  // A step is 4 sequences of 8 tokens.
  EXPECT_DOUBLE_EQ(report["tokens_per_s"], 32e3 / double(ms["median"]));
  auto manifest =
      nlohmann::json::parse(runProgram("inspect --json " + toy("toy3")).out);
  for (const auto &function : manifest["functions"]) {
    if (function["name"] == "train_step") {
      EXPECT_EQ(report["communication"], function["communication"]);
    }
  }
  const auto &memory = report["memory"];
  EXPECT_EQ(memory["moments"], 2 * int64_t(memory["parameters"]));
  EXPECT_GT(memory["total"], 3 * int64_t(memory["parameters"]));
}

TEST_F(Bench, PrintsForPeople) {
  Outcome outcome = runProgram("bench " + toy("toy2") + " --steps 3");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("3 steps: median "));
  EXPECT_THAT(outcome.out, HasSubstr("tokens/s"));
  EXPECT_THAT(outcome.out, HasSubstr("communication over row: "));
  EXPECT_THAT(outcome.out, HasSubstr("memory of the largest rank: "));
}

TEST_F(Bench, RefusesNothingToTime) {
  Outcome outcome = runProgram("bench " + toy("toy2") + " --steps 0");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("--steps: expected a whole number from 1"));
}

} // namespace
