//===- NearestNameTest.cpp - What was meant by an unknown name ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/NearestName.h"

#include <gtest/gtest.h>

using namespace optimus_support;

namespace {

const std::vector<std::string> kKnown = {"serial", "summa", "summa-paper",
                                         "megatron", "data"};

TEST(NearestName, FindsWhatSlipsLeadTo) {
  EXPECT_EQ(nearestName("suma", kKnown), "summa");
  EXPECT_EQ(nearestName("summma", kKnown), "summa");
  EXPECT_EQ(nearestName("sumna", kKnown), "summa");
  EXPECT_EQ(nearestName("smuma", kKnown), "summa");
  EXPECT_EQ(nearestName("summa_paper", kKnown), "summa-paper");
}

TEST(NearestName, MindsNoCapitals) {
  EXPECT_EQ(nearestName("SUMMA", kKnown), "summa");
  EXPECT_EQ(nearestName("H100", {"a100", "h100"}), "h100");
  EXPECT_EQ(nearestName("gelu", {"GELU"}), "GELU");
}

TEST(NearestName, KnowsFlagsAndBeginnings) {
  const std::vector<std::string> flags{"--data", "--eval-data", "--save",
                                       "--save-every", "--lr"};
  EXPECT_EQ(nearestName("--dta", flags), "--data");
  EXPECT_EQ(nearestName("-data", flags), "--data");
  EXPECT_EQ(nearestName("--evaldata", flags), "--eval-data");
  EXPECT_EQ(nearestName("--save_every", flags), "--save-every");
  EXPECT_EQ(nearestName("--saev", flags), "--save");
  EXPECT_EQ(nearestName("--ev", flags), "--eval-data");
  EXPECT_EQ(nearestName("--colour", flags), "");
  EXPECT_EQ(nearestName("--", flags), "");
}

TEST(NearestName, DoesNotGuess) {
  EXPECT_EQ(nearestName("magic", kKnown), "");
  EXPECT_EQ(nearestName("", kKnown), "");
  EXPECT_EQ(nearestName(std::string(1 << 20, 'x'), kKnown), "");
  EXPECT_EQ(nearestName("summa", {}), "");
  EXPECT_EQ(nearestName("x", {"o"}), "");
  EXPECT_EQ(nearestName("gpu", {"cpu", "cuda"}), "");
}

TEST(NearestName, EndsAMessage) {
  EXPECT_EQ(didYouMean("dta", kKnown), "; did you mean 'data'?");
  EXPECT_EQ(didYouMean("dta", kKnown, '`'), "; did you mean `data`?");
  EXPECT_EQ(didYouMean("magic", kKnown), "");
}

} // namespace
