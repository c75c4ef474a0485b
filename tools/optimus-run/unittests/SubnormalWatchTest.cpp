//===- SubnormalWatchTest.cpp - Steps slowed by tiny numbers --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SubnormalWatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

using namespace optimus_run;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

struct Step {
  double milliseconds;
  bool hadSubnormals;
};

std::vector<std::string> said(const std::vector<Step> &steps) {
  SubnormalWatch watch;
  std::vector<std::string> all;
  int64_t number = 0;
  for (const Step &step : steps)
    if (auto text =
            watch.after(++number, step.milliseconds, step.hadSubnormals))
      all.push_back(*text);
  return all;
}

TEST(SubnormalWatch, SpeaksOnceOfThreeSlowStepsInARow) {
  EXPECT_THAT(said({{300, false},
                    {200, false},
                    {800, true},
                    {500, true},
                    {2700, true},
                    {2700, true},
                    {2700, true},
                    {2700, true}}),
              ElementsAre(HasSubstr("steps 3 to 5 worked on subnormal numbers, "
                                    "and took at least 2.5 times as long")));
}

TEST(SubnormalWatch, IsSilentOfOtherCauses) {
  // A busy machine, or some numbers that cost nothing.
  EXPECT_THAT(said({{200, false}, {900, false}, {900, false}, {900, false}}),
              IsEmpty());
  EXPECT_THAT(said({{200, true}, {390, true}, {390, true}, {390, true}}),
              IsEmpty());
  EXPECT_THAT(said({{200, true},
                    {900, true},
                    {900, true},
                    {200, true},
                    {900, true},
                    {900, true}}),
              IsEmpty());
}

} // namespace
