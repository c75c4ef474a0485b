//===- ProgressTest.cpp - What a terminal shows of training ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optimus_run;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

const StepReport kReport = {12'345, 2.345678, 0.987654, 3e-4, 1234.56, 98'765};

std::string lineOf(std::size_t columns) {
  return progressLine(kReport, 1, 100'000, 3 * 3600 + 25 * 60 + 7, columns);
}

TEST(Progress, AWideTerminalShowsAll) {
  EXPECT_EQ(lineOf(200),
            "[##..................]  12345/100000 | loss 2.345678 | norm 0.9877 "
            "| lr 3.00e-04 | 1234.56 ms | 98765 tok/s | ETA 3:25:07");
}

TEST(Progress, HowLongItTakesStaysHoweverNarrowTheTerminalIs) {
  for (std::size_t columns = 200; columns >= 11; --columns) {
    EXPECT_LE(lineOf(columns).size(), columns);
    EXPECT_THAT(lineOf(columns), EndsWith("ETA 3:25:07"));
  }
  // What everybody has.
  std::string usual = lineOf(79);
  EXPECT_THAT(usual, StartsWith(" 12345/100000 | loss 2.345678"));
  EXPECT_THAT(usual, HasSubstr("tok/s"));
  EXPECT_THAT(usual, Not(HasSubstr("[")));
  EXPECT_THAT(lineOf(40), HasSubstr("loss 2.346"));
  EXPECT_LE(lineOf(5).size(), 5u);
}

} // namespace
