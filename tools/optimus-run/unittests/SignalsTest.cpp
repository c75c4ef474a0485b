//===- SignalsTest.cpp - Runs that are asked to end -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "optimus-runtime/Checkpoint.h"

#include <csignal>
#include <cstring>

using testing::HasSubstr;

namespace {

class Signals : public ProgramTest {
protected:
  std::string train() const {
    return "train " + toy("toy2") + data() +
           " --steps 1000000 --overwrite --save " + path("ck") +
           " --log-json " + path("log");
  }
  /// Checks that the saved step is the last one logged.
  void expectSaved() {
    auto checkpoint = optrt::Checkpoint::open(path("ck"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->state().step, readLog("log").back()["step"]);
  }
  /// A script that starts a run, waits until it has taken a step, does
  /// something with $run, and ends as it does.
  Outcome whileItRuns(const std::string &script,
                      const std::string &launcher = "") {
    return runShell("exec 2>&1; " + launcher + " " OPTIMUS_RUN " " + train() +
                    " & run=$!; while ! [ -s " + path("log") +
                    " ]; do sleep 0.01; done; " + script + "; wait $run");
  }
};

TEST_F(Signals, EveryOneThatAsksForAnEndIsAnsweredAfterTheStep) {
  for (int signal :
       {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT, SIGTERM}) {
    Outcome stopped = signalProgram(train(), signal, path("log"));
    EXPECT_EQ(stopped.code, 128 + signal) << stopped.out;
    EXPECT_THAT(stopped.out, HasSubstr(std::string("stopped by SIG") +
                                       sigabbrev_np(signal) + " after step "));
    expectSaved();
    std::remove(path("log").c_str());
  }
}

TEST_F(Signals, TwoTogetherAreOne) {
  // What timeout(1) does: to the process, and to its group.
  Outcome stopped = whileItRuns("kill $run; kill $run; kill $run");
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.out;
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIGTERM after step "));
  expectSaved();
}

TEST_F(Signals, ASchedulersWarningAndItsEndAreOneStop) {
  Outcome stopped = whileItRuns("kill -USR1 $run; kill -TERM $run");
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIG"));
  expectSaved();
}

TEST_F(Signals, ThoseThatWereIgnoredStayIgnored) {
  Outcome stopped = whileItRuns(
      "kill -HUP $run; sleep 0.1; kill -0 $run && echo lives; kill $run",
      "nohup");
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.out;
  EXPECT_THAT(stopped.out, HasSubstr("lives"));
}

TEST_F(Signals, ASecondOneEndsTheProcessAtOnce) {
  // A rank that never comes back from its third step.
  Outcome killed = runShell(
      "exec 2>&1; " OPTIMUS_RUN " train " + toy("toy-stall") + data() +
      " --steps 1000000 --timeout 60 --save " + path("ck") + " --log-json " +
      path("log") + " & run=$!; while ! [ $(wc -l < " + path("log") +
      " || echo 0) -ge 3 ]; do sleep 0.01; done; kill $run; sleep 0.3; "
      "kill -0 $run && echo lives; kill $run; wait $run");
  EXPECT_EQ(killed.code, 128 + SIGTERM) << killed.out;
  EXPECT_THAT(killed.out, HasSubstr("lives"));
  // And what is temporary goes with it.
  EXPECT_EQ(read(".ck.optimus-lock"), "");
}

} // namespace
