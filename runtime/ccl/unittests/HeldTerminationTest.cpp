//===- HeldTerminationTest.cpp - SIGTERM comes before its reason ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/peers/HeldTermination.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

using namespace optrt;
using namespace std::chrono_literals;
using testing::ExitedWithCode;
using testing::KilledBySignal;

namespace {

TEST(HeldTermination, WaitsForWhoIsToBlame) {
  auto holds = [] {
    std::signal(SIGTERM, SIG_DFL);
    HeldTermination termination;
    termination.hold();
    std::raise(SIGTERM);
    termination.letPass();
    std::_Exit(7);
  };
  EXPECT_EXIT(holds(), ExitedWithCode(7), "");
}

TEST(HeldTermination, PassesWhereNobodyIs) {
  auto passes = [] {
    std::signal(SIGTERM, SIG_DFL);
    HeldTermination termination;
    termination.hold();
    std::raise(SIGTERM);
    while (true) {
      termination.letPass();
      std::this_thread::sleep_for(1ms);
    }
  };
  EXPECT_EXIT(passes(), KilledBySignal(SIGTERM), "");
}

TEST(HeldTermination, EndsWhoIsReady) {
  auto ends = [] {
    std::signal(SIGTERM, SIG_DFL);
    HeldTermination termination;
    termination.hold();
    termination.endWith(2);
    std::raise(SIGTERM);
    std::_Exit(7);
  };
  EXPECT_EXIT(ends(), ExitedWithCode(2), "");
}

TEST(HeldTermination, StaysIgnored) {
  auto ignores = [] {
    std::signal(SIGTERM, SIG_IGN);
    HeldTermination termination;
    termination.hold();
    termination.endWith(2);
    std::raise(SIGTERM);
    std::_Exit(7);
  };
  EXPECT_EXIT(ignores(), ExitedWithCode(7), "");
}

} // namespace
