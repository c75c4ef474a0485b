//===- VerifyAndInspectTest.cpp - verify and inspect ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

using testing::HasSubstr;

namespace {

using Verify = ProgramTest;
using Inspect = ProgramTest;

TEST_F(Verify, AcceptsTheSameModelOnOtherMeshes) {
  for (const char *other : {"toy1", "toy2", "toy3"}) {
    Outcome outcome =
        runProgram("verify " + toy("toy1") + " " + toy(other) + data());
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("table.weight"));
    EXPECT_THAT(outcome.out, HasSubstr("same"));
  }
}

TEST_F(Verify, NamesTheGradientThatIsWrong) {
  Outcome outcome =
      runProgram("verify " + toy("toy1") + " " + toy("toy-gradient") + data());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("`table.bias` is the first of 1 tensors to differ"));
}

TEST_F(Verify, WritesJson) {
  Outcome outcome = runProgram("verify " + toy("toy2") + " " + toy("toy3") +
                               data() + " --json --step-index 3 --seed 2");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["same"], true);
  ASSERT_EQ(report["tensors"].size(), 3u);
  EXPECT_EQ(report["tensors"][0]["name"], "loss");
  EXPECT_LE(report["tensors"][1]["relative_difference"],
            report["tensors"][1]["bound"]);
  EXPECT_LE(report["tensors"][1]["of_bound"], 1);
  EXPECT_GE(report["tensors"][1]["amplification"], 1);
}

TEST_F(Inspect, PrintsWhatTheLibraryContains) {
  Outcome outcome = runProgram("inspect " + toy("toy3"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("row:3"));
  EXPECT_THAT(outcome.out, HasSubstr("[86, 256]"));
  EXPECT_THAT(outcome.out, HasSubstr("[{row}, {}]"));
  EXPECT_THAT(outcome.out, HasSubstr("train_step"));
}

TEST_F(Inspect, PrintsTheManifest) {
  Outcome outcome = runProgram("inspect --json " + toy("toy2"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["mesh"][0]["size"], 2);
}

TEST_F(Inspect, WorksForAnotherProcessor) {
  EXPECT_EQ(runProgram("inspect " + toy("toy-feature")).code, 0);
}

} // namespace
