//===- ModelRecordTest.cpp - What a checkpoint keeps of its model ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/ModelRecordJson.h"

#include <gtest/gtest.h>

using namespace optrt;

static ModelFunction sixHeads() {
  return {1,
          "0f0e0d0c0b0a0908",
          {{"heads", {"6", "--heads"}}, {"mask", {"\"causal\"", ""}}}};
}

TEST(ModelRecord, IsTheSameThroughJson) {
  ModelRecord record{
      sixHeads(),
      "adamw",
      {{"batch", {"4", ""}}, {"dropout", {"[0.1,0.25]", "--dropout"}}}};
  for (bool hasFunction : {true, false}) {
    if (!hasFunction)
      record.function.reset();
    JsonDocument document(toJson(record).dump(), "a record",
                          StatusCode::DataLoss);
    EXPECT_EQ(readModelRecord(document.root()), record);
    EXPECT_TRUE(document.status().ok()) << document.status().message();
  }
}

TEST(ModelRecord, IsPrintedForPeople) {
  EXPECT_EQ(toString(sixHeads().facts), "heads 6, mask causal");
  EXPECT_EQ(toString(ModelFacts()), "");
}

TEST(ModelRecord, IsComparedWithOneOfTheSameVersion) {
  ModelFunction other = sixHeads();
  EXPECT_TRUE(areComparable(sixHeads(), other));
  EXPECT_FALSE(areComparable(sixHeads(), std::nullopt));
  other.version = 2;
  EXPECT_FALSE(areComparable(sixHeads(), other));
}

TEST(ModelRecord, DifferencesHaveBothValuesAndTheFlagsOfTheFirst) {
  ModelFunction other = sixHeads();
  EXPECT_EQ(describeDifference(sixHeads(), "a", other, "b"), "");
  // A flag is no fact.
  other.facts["heads"].flag = "-n";
  EXPECT_EQ(describeDifference(sixHeads(), "a", other, "b"), "");
  other.hash = "1111111111111111";
  EXPECT_EQ(describeDifference(sixHeads(), "a", other, "b"),
            "what computes the loss: a has hash 0f0e0d0c0b0a0908, b "
            "1111111111111111");
  other.facts["heads"] = {"4", "--heads"};
  other.facts.erase("mask");
  EXPECT_EQ(describeDifference(sixHeads(), "a", other, "b"),
            "heads: a 6, b 4; mask: a causal, b none; compile a program built "
            "with --heads 6");
}

TEST(ModelRecord, ATruthHasAFlagOfItsOwn) {
  ModelFunction tied = sixHeads(), untied = sixHeads();
  tied.facts["tied"] = {"true", "--tied"};
  untied.facts["tied"] = {"false", "--tied"};
  EXPECT_EQ(describeDifference(tied, "a", untied, "b"),
            "tied: a true, b false; compile a program built with --tied");
  EXPECT_EQ(describeDifference(untied, "a", tied, "b"),
            "tied: a false, b true; compile a program built with --untied");
}

TEST(ModelRecord, ChangesHaveTheNewValueFirst) {
  ModelFacts before = {{"batch", {"4", ""}}, {"mesh", {"\"row:2\"", ""}}};
  ModelFacts now = before;
  EXPECT_EQ(describeChanges(now, before), "");
  now["batch"].value = "8";
  now["dropout"].value = "0.5";
  EXPECT_EQ(describeChanges(now, before),
            "batch 8 (was 4), dropout 0.5 (was none)");
}
