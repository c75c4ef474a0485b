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
using optrt::Hyperparameters;
using optrt::TrainingState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

} // namespace
