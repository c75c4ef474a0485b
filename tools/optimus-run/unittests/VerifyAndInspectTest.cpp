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
  auto report = outcome.json();
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
  EXPECT_EQ(outcome.json()["mesh"][0]["size"], 2);
}

TEST_F(Inspect, PrintsCommands) {
  Outcome outcome = runProgram("inspect --commands " + toy("toy3"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("function train_step: arena0 of "));
  EXPECT_THAT(outcome.out, HasSubstr("\n\nfunction eval_step: "));
  EXPECT_THAT(outcome.out, HasSubstr("\n\nfunction grad_step: "));
  EXPECT_THAT(outcome.out,
              HasSubstr("\n0 row: all_gather read src=arg0[0]:22016f32 write "
                        "dst=arena0[0]:66048f32 bytes=352256 table\n"
                        "1 compute: wait for 0 table\n"));
  EXPECT_THAT(outcome.out, HasSubstr(": gemm 16x256x258 read "));
  EXPECT_THAT(outcome.out, HasSubstr(": sum_squares extent=1 grain=1 "
                                     "scalar=22016 scalar=1*row read "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("ranks ")));
  EXPECT_THAT(outcome.out, testing::EndsWith(
                               "\n\nsequence train: train_step\n"
                               "sequence eval_twice: eval_step x N, grad_step\n"
                               "sequence eval_average: eval_step "
                               "arg0=exp_avg:table.weight\n"
                               "sequence eval_both: (eval_step "
                               "arg0=[table.weight, exp_avg:table.weight][i0],"
                               " grad_step) x 2, (eval_step, grad_step) x "
                               "N\n"));
}

TEST_F(Inspect, PrintsTheCommandsOfAFunctionOnARank) {
  Outcome outcome = runProgram(
      "inspect --commands --function train_step --rank 2 " + toy("toy3"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, testing::StartsWith("function train_step: "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("eval_step")));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("sequence")));
  EXPECT_THAT(
      outcome.out,
      HasSubstr(": sum_squares extent=1 grain=1 scalar=22016 scalar=2 "));
}

TEST_F(Inspect, PrintsTheTableOfEverySetOfRanks) {
  std::string inspect = "inspect --commands --function train_step ";
  Outcome outcome = runProgram(inspect + toy("toy-rank"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, testing::StartsWith("ranks 0 to 0\nfunction "));
  EXPECT_THAT(outcome.out, HasSubstr("\n\nranks 1 to 1\nfunction "));
  EXPECT_THAT(outcome.out,
              HasSubstr("\n0 compute: watch_step extent=1 grain=1 clock\n"));
  outcome = runProgram(inspect + "--rank 1 " + toy("toy-rank"));
  EXPECT_THAT(outcome.out, testing::StartsWith("function train_step"));
}

TEST_F(Inspect, NamesWhatThereIsNot) {
  Outcome outcome =
      runProgram("inspect --commands --function train_stp " + toy("toy3"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("has no function `train_stp`; did you mean "
                        "`train_step`?; there are train_step, eval_step, "
                        "grad_step"));
  outcome = runProgram("inspect --commands --rank 3 " + toy("toy3"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("--rank: expected 0 to 2 on the mesh "
                                     "row:3, found 3"));
  outcome = runProgram("inspect --rank 1 " + toy("toy3"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("--rank requires --commands"));
}

TEST_F(Inspect, WorksForAnotherProcessor) {
  EXPECT_EQ(runProgram("inspect " + toy("toy-feature")).code, 0);
}

} // namespace
