//===- TrainingPlanTest.cpp - Where a run begins and how it goes ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optimus_run;
using optrt::DataRecord;
using optrt::Hyperparameters;
using optrt::TokenType;
using optrt::TrainingState;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

namespace {

const StartingPoint kStart{"ck"};

/// Of a run of 6 sequences a step.
TrainingState stateAtStep4() {
  TrainingState state;
  state.step = 4;
  state.seed = 9;
  state.dataPosition = 24;
  state.order = "sequential";
  state.hyperparameters.emplace();
  state.hyperparameters->steps = 50;
  state.hyperparameters->rate.peak = 0.25;
  state.hyperparameters->clip = 3;
  return state;
}

TEST(TrainingPlan, WithoutACheckpointWhatIsNotGivenHasItsDefault) {
  TrainOptions options;
  options.hyperparameters.rate.peak = 0.5;
  options.given = {"lr"};
  TrainingPlan plan(options, {}, nullptr);
  Hyperparameters expected;
  expected.rate.peak = 0.5;
  EXPECT_EQ(plan.hyperparameters, expected);
  EXPECT_EQ(plan.seed, 0u);
  EXPECT_EQ(plan.order, "shuffled");
  EXPECT_EQ(plan.firstStep, 1);
  EXPECT_EQ(plan.positionBefore(3, 6), 12);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(TrainingPlan, AWarmupThatTheRunDoesNotReachTheEndOfIsSaid) {
  TrainOptions options;
  options.hyperparameters.steps = 50;
  options.hyperparameters.rate.peak = 0.5;
  options.hyperparameters.rate.warmup = 200;
  options.given = {"steps", "lr", "warmup"};
  EXPECT_THAT(
      TrainingPlan(options, {}, nullptr).notes,
      ElementsAre("--warmup 200 is longer than the run, --steps 50: the "
                  "learning rate rises to 0.125 and never reaches --lr "
                  "0.5"));
  options.hyperparameters.rate.warmup = 50;
  EXPECT_THAT(TrainingPlan(options, {}, nullptr).notes, IsEmpty());
}

TEST(TrainingPlan, ACheckpointSaysWhatIsNotGiven) {
  TrainingState state = stateAtStep4();
  TrainingPlan plan(TrainOptions(), kStart, &state);
  EXPECT_EQ(plan.hyperparameters, *state.hyperparameters);
  EXPECT_EQ(plan.seed, 9u);
  EXPECT_EQ(plan.order, "sequential");
  EXPECT_EQ(plan.firstStep, 5);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(TrainingPlan, WhatIsGivenCountsAndWhatDiffersIsSaid) {
  TrainingState state = stateAtStep4();
  TrainOptions options;
  options.seed = 1;
  // As in the checkpoint.
  options.order = "sequential";
  options.hyperparameters.rate.peak = 0.125;
  options.hyperparameters.clip = std::numeric_limits<double>::infinity();
  options.given = {"lr", "clip"};
  TrainingPlan plan(options, kStart, &state);
  EXPECT_EQ(plan.hyperparameters.rate.peak, 0.125);
  EXPECT_EQ(plan.hyperparameters.steps, 50);
  EXPECT_THAT(plan.notes,
              ElementsAre("unlike before: --lr 0.125 (was 0.25), --clip none "
                          "(was 3), --seed 1 (was 9)"));
}

TEST(TrainingPlan, AnEarlierVersionsCheckpointHasTheDefaults) {
  TrainingState state = stateAtStep4();
  state.hyperparameters.reset();
  TrainOptions options;
  options.hyperparameters.beta1 = 0.5;
  options.given = {"beta1"};
  TrainingPlan plan(options, kStart, &state);
  Hyperparameters expected;
  expected.beta1 = 0.5;
  EXPECT_EQ(plan.hyperparameters, expected);
  EXPECT_THAT(plan.notes,
              ElementsAre(HasSubstr("ck keeps no hyperparameters")));
}

TEST(TrainingPlan, AnotherBatchGoesOnWhereTheLastOneEnded) {
  TrainingState state = stateAtStep4();
  TrainingPlan plan(TrainOptions(), kStart, &state);
  // Steps 5 and 6 read three times as much as those before.
  EXPECT_EQ(plan.positionBefore(5, 18), 24);
  EXPECT_EQ(plan.positionBefore(6, 18), 42);
  EXPECT_EQ(plan.positionBefore(7, 18), 60);
  // What is saved when no step was taken.
  EXPECT_EQ(plan.positionBefore(4, 18), 24);
}

//===----------------------------------------------------------------------===//
// Where reading goes on
//===----------------------------------------------------------------------===//

/// Of 101 tokens, in 10 windows of 10 tokens, 6 a step.
DataRecord corpus() {
  return {"corpus.txt", {TokenType::U8, 101, 7, 8}, 10, 6, 0};
}

/// After 24 sequences: in the third epoch, before window 4.
TrainingState stateInTheThirdEpoch() {
  TrainingState state = stateAtStep4();
  state.data = corpus();
  state.data->position = 240;
  return state;
}

/// The position, and what is said of it.
std::pair<int64_t, std::vector<std::string>>
goOn(const TrainingState &state, const DataRecord &now, bool restarts = false,
     const std::string &order = "sequential") {
  TrainOptions options;
  options.load = "ck";
  options.restartData = restarts;
  options.order = order;
  TrainingPlan plan(options, kStart, &state);
  plan.notes.clear();
  optrt::Status status = plan.goOnReading(options, kStart, state, now);
  EXPECT_TRUE(status.ok()) << status.message();
  return {plan.firstPosition, plan.notes};
}

TEST(ReadingGoesOn, WhereItStoppedInTheSameData) {
  DataRecord now = corpus();
  EXPECT_THAT(goOn(stateInTheThirdEpoch(), now), Pair(24, IsEmpty()));
  // Under another name, and where not all was hashed yet.
  now.file = "copy.txt";
  now.identity.contents.reset();
  EXPECT_THAT(goOn(stateInTheThirdEpoch(), now), Pair(24, IsEmpty()));
}

TEST(ReadingGoesOn, AndWhatIsNotHashedYetIsComparedLater) {
  TrainingState state = stateInTheThirdEpoch();
  auto expected = [&](const DataRecord &now) {
    TrainingPlan plan(TrainOptions(), kStart, &state);
    EXPECT_TRUE(plan.goOnReading(TrainOptions(), kStart, state, now).ok());
    return plan.expectedContents;
  };
  DataRecord now = corpus();
  EXPECT_EQ(expected(now), std::nullopt);
  now.identity.contents.reset();
  EXPECT_EQ(expected(now), 8u);
  // What differs already was said.
  now.identity.sample = 1;
  EXPECT_EQ(expected(now), std::nullopt);
}

TEST(ReadingGoesOn, AtTheSameSequenceWithAnotherBatch) {
  DataRecord now = corpus();
  now.batch = 18;
  EXPECT_THAT(goOn(stateInTheThirdEpoch(), now),
              Pair(24, ElementsAre("unlike before: a step reads 18 sequences "
                                   "(was 6)")));
}

TEST(ReadingGoesOn, AtTheSameTokenOfTheEpochWithAnotherSequenceLength) {
  // 20 windows of 5, 6 of 16, 1 of 70; 40 tokens of the epoch were read.
  for (auto [sequence, position] :
       {std::pair(5, 2 * 20 + 8), {16, 2 * 6 + 2}, {70, 2}}) {
    DataRecord now = corpus();
    now.sequence = sequence;
    EXPECT_THAT(
        goOn(stateInTheThirdEpoch(), now),
        Pair(position,
             ElementsAre(HasSubstr(" tokens (was 10)"),
                         AllOf(HasSubstr("after 240 tokens, in epoch 3 at "),
                               HasSubstr("--restart-data"),
                               Not(HasSubstr("shuffled"))))));
    EXPECT_THAT(goOn(stateInTheThirdEpoch(), now, false, "shuffled").second,
                Contains(HasSubstr("some tokens come again")));
  }
}

TEST(ReadingGoesOn, AfterAsManyTokensInOtherData) {
  DataRecord longer = corpus();
  longer.identity.tokens = 1001;
  EXPECT_THAT(
      goOn(stateInTheThirdEpoch(), longer),
      Pair(24, ElementsAre(AllOf(HasSubstr("not what ck was trained on"),
                                 HasSubstr("of 1001 tokens (u8)"),
                                 HasSubstr("was corpus.txt of 101")),
                           HasSubstr("epoch 1 at window 24 of 100"))));
  longer.sequence = 20;
  EXPECT_EQ(goOn(stateInTheThirdEpoch(), longer).first, 12);
  for (bool isSampled : {true, false}) {
    DataRecord other = corpus();
    (isSampled ? other.identity.sample : *other.identity.contents) ^= 1;
    EXPECT_THAT(goOn(stateInTheThirdEpoch(), other),
                Pair(24, ElementsAre(HasSubstr("they have other contents"),
                                     HasSubstr("epoch 3 at window 4 of 10"))));
  }
}

TEST(ReadingGoesOn, AtTheBeginningWhereThatIsAskedFor) {
  DataRecord other = corpus();
  other.identity.tokens = 77;
  EXPECT_THAT(goOn(stateInTheThirdEpoch(), other, /*restarts=*/true),
              Pair(0, ElementsAre(HasSubstr("not what ck was trained on"),
                                  HasSubstr("--restart-data: reading begins "
                                            "anew"))));
}

TEST(ReadingGoesOn, WhereAJobThatIsStartedAgainStopped) {
  TrainingState state = stateInTheThirdEpoch();
  TrainOptions options;
  options.restartData = options.resume = true;
  options.load = "ck";
  options.save = "own";
  for (auto [folder, position] : {std::pair("ck", 0), {"own", 24}}) {
    StartingPoint start{folder, "--resume"};
    TrainingPlan plan(options, start, &state);
    EXPECT_TRUE(plan.goOnReading(options, start, state, corpus()).ok());
    EXPECT_EQ(plan.firstPosition, position);
  }
}

TEST(ReadingGoesOn, AfterAsManySequencesWhereNobodySaysWhatTheDataWas) {
  TrainingState state = stateInTheThirdEpoch();
  state.data.reset();
  EXPECT_THAT(goOn(state, corpus()),
              Pair(24, ElementsAre(HasSubstr("does not say what data it was "
                                             "trained on"))));
}

TEST(ReadingGoesOn, NowhereBeyondAllPositions) {
  TrainingState state = stateInTheThirdEpoch();
  state.dataPosition = optrt::kMostDataPosition - 1;
  state.data->position = state.dataPosition * 10;
  TrainOptions options;
  for (int64_t sequence : {5, 3}) {
    DataRecord now = corpus();
    now.sequence = sequence;
    now.identity.tokens = sequence == 5 ? 101 : int64_t(1) << 59;
    TrainingPlan plan(options, kStart, &state);
    EXPECT_THAT(plan.goOnReading(options, kStart, state, now).message(),
                HasSubstr("--restart-data begins anew"));
  }
}

} // namespace
