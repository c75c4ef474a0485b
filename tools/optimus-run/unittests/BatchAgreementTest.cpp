//===- BatchAgreementTest.cpp - That processes read the same tokens -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchAgreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace optimus_run;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

using Witnessed = std::vector<std::vector<int>>;

Witnessed witnessed(const std::vector<std::string> &places) {
  return chooseWitnessed(places);
}

TEST(ChooseWitnessed, NobodyWhereAllHaveOneFile) {
  EXPECT_EQ(witnessed({"a"}), Witnessed(1));
  EXPECT_EQ(witnessed({"a", "a", "a"}), Witnessed(3));
}

TEST(ChooseWitnessed, ThoseOfTheNextFile) {
  EXPECT_THAT(witnessed({"a", "b"}),
              ElementsAre(ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(witnessed({"a", "a", "b", "b"}),
              ElementsAre(ElementsAre(2), ElementsAre(3), ElementsAre(0),
                          ElementsAre(1)));
  EXPECT_THAT(witnessed({"a", "b", "b", "b", "a"}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(0), ElementsAre(4),
                          IsEmpty(), ElementsAre(2)));
}

TEST(ChooseWitnessed, EachProcessHasOneWitnessWithAnotherFile) {
  std::mt19937 random(1);
  for (int round = 0; round != 200; ++round) {
    std::vector<std::string> places(1 + random() % 20);
    std::set<std::string> files;
    for (std::string &place : places) {
      place = std::string(1, char('a' + random() % 4));
      files.insert(place);
    }
    std::vector<int> witnesses(places.size());
    const Witnessed all = witnessed(places);
    for (std::size_t process = 0; process != places.size(); ++process)
      for (int other : all[process]) {
        EXPECT_NE(places[process], places[other]);
        ++witnesses[other];
      }
    for (int count : witnesses)
      EXPECT_EQ(count, files.size() == 1 ? 0 : 1);
  }
}

} // namespace
