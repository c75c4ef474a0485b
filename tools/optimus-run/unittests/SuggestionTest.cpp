//===- SuggestionTest.cpp - What a misspelt word may mean -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suggestion.h"

#include <gtest/gtest.h>

using namespace optimus_run;

namespace {

std::string meant(const std::string &word) {
  static const std::string words[] = {"--data", "--eval-data", "--save",
                                      "--save-every", "--lr", "train"};
  return didYouMean(word, words);
}

TEST(Suggestion, FindsWhatIsNear) {
  EXPECT_EQ(meant("--dta"), "; did you mean `--data`?");
  EXPECT_EQ(meant("-data"), "; did you mean `--data`?");
  EXPECT_EQ(meant("--evaldata"), "; did you mean `--eval-data`?");
  EXPECT_EQ(meant("--save_every"), "; did you mean `--save-every`?");
  EXPECT_EQ(meant("--saev"), "; did you mean `--save`?");
  EXPECT_EQ(meant("trian"), "; did you mean `train`?");
  // A beginning, as some programs take it.
  EXPECT_EQ(meant("--ev"), "; did you mean `--eval-data`?");
}

TEST(Suggestion, FindsNothingWhereNothingIs) {
  EXPECT_EQ(meant("--colour"), "");
  EXPECT_EQ(meant("--"), "");
  EXPECT_EQ(meant(""), "");
  EXPECT_EQ(meant(std::string(100'000, 'x')), "");
}

} // namespace
