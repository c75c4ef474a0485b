//===- FaultTest.cpp - Ranks that die or stall ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <chrono>
#include <csignal>

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace {

class Faults : public ProgramTest {
protected:
  std::string train(const std::string &library, double timeout) const {
    return "train " + toy(library) + data() +
           " --steps 1000000 --threads-per-rank 1 --timeout " +
           std::to_string(timeout) + " --log-json " + path("log");
  }

  /// Trains on three ranks, of which the middle one gets a signal after a
  /// step.
  Outcome signalTheMiddleOne(int signal, double timeout) const {
    std::string arguments = train("toy3", timeout);
    std::string launcher = mpirun(1) + " " OPTIMUS_RUN " " + arguments +
                           " : -n 1 sh -c 'echo $$ > " + path("pid") +
                           "; exec \"$0\" \"$@\"' " OPTIMUS_RUN " " +
                           arguments + " : -n 1";
    return signalProgram(arguments, signal, path("log"), launcher, path("pid"));
  }
};

using FaultsOverMpi = OverMpi<Faults>;

const auto kNamesACollective = AnyOf(HasSubstr("(all_reduce), collective"),
                                     HasSubstr("(all_gather), collective"),
                                     HasSubstr("(reduce_scatter), collective"));
// What the others wait for, wherever they are.
const auto kSaysWhoWaits =
    AllOf(HasSubstr(" has waited "),
          AnyOf(HasSubstr("the exchange between two runs"), kNamesACollective));

TEST_F(Faults, AThreadThatStallsIsNamed) {
  Outcome outcome = runProgram(train("toy-stall", 4));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(
      outcome.out,
      HasSubstr("error: rank 2 stalled in clock (stall, toy.py:12): rank "));
  EXPECT_THAT(outcome.out, HasSubstr("on mesh axis row, which it has not "
                                     "started"));
  EXPECT_THAT(outcome.out, kNamesACollective);
}

TEST_F(FaultsOverMpi, AProcessThatStallsIsNamed) {
  Outcome outcome = runProgram(train("toy-stall", 4), mpirun(3));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(
      outcome.out,
      HasSubstr("error: rank 2 stalled in clock (stall, toy.py:12): rank "));
  EXPECT_THAT(outcome.out, kNamesACollective);
}

TEST_F(FaultsOverMpi, AProcessThatDiesIsNamedAtOnce) {
  auto begin = std::chrono::steady_clock::now();
  Outcome outcome = signalTheMiddleOne(SIGKILL, 100);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("error: rank 1 died"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(FaultsOverMpi, AProcessThatIsStoppedIsNamedAfterTheTimeout) {
  auto begin = std::chrono::steady_clock::now();
  Outcome outcome = signalTheMiddleOne(SIGSTOP, 4);
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("error: rank 1 was not heard of for"));
  EXPECT_THAT(outcome.out, kSaysWhoWaits);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(FaultsOverMpi, RanksWithOtherOptionsAreRefused) {
  auto with = [&](const std::string &own, const std::string &other) {
    std::string common = " train " + toy("toy2") + data() + " --steps 2 ";
    return runProgram("train " + toy("toy2") + data() + " --steps 2 " + own +
                          " : -n 1 " OPTIMUS_RUN + common + other,
                      mpirun(1));
  };
  Outcome rate = with("--lr 0.25", "--lr 0.5");
  EXPECT_EQ(rate.code, 1) << rate.out;
  EXPECT_THAT(rate.out, HasSubstr("rank 1 and rank 0 disagree on --lr"));
  EXPECT_THAT(rate.out, HasSubstr("0.5"));
  EXPECT_THAT(rate.out, HasSubstr("0.25"));

  write("other.txt", std::string(1000, 'x'));
  Outcome data = with("", "--data " + path("other.txt"));
  EXPECT_EQ(data.code, 1) << data.out;
  EXPECT_THAT(data.out, HasSubstr("rank 1 and rank 0 disagree on the data"));

  EXPECT_EQ(with("--lr 0.25", "--lr 0.25").code, 0);
}

} // namespace
