//===- ChangedStepTest.cpp - A step if something were otherwise -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatorFixture.h"

#include <gmock/gmock.h>

#include <random>

using namespace optimus_simulation;

namespace {

TEST_F(SimulatorTest, OverlapMayBeNoneOrPerfect) {
  beginFunction("f");
  const uint32_t hidden = start(Row);
  compute(3);
  wait(hidden);
  wait(start(Row));
  wait(start(Row));
  EXPECT_EQ(simulated({"f"}).getStep(), 5 * kMs);
  EXPECT_EQ(simulated({"f"}, {.overlap = Overlap::None}).getStep(), 6 * kMs);
  // Three on one link, three of computing.
  EXPECT_EQ(simulated({"f"}, {.overlap = Overlap::Perfect}).getStep(), 3 * kMs);
  const Simulation bound =
      simulated({"f"}, {.network = {.bandwidth = 1, .latency = 2},
                        .overlap = Overlap::Perfect});
  EXPECT_EQ(bound.getStep(), 6 * kMs);
  EXPECT_EQ(bound.ranks[0].exposed, 3 * kMs);
}

TEST_F(SimulatorTest, ScalesWhatMatches) {
  beginFunction("f");
  compute(2, "h.0.mlp");
  compute(1, "h.1.mlp");
  wait(start(Row, "h.0.up"));
  EXPECT_EQ(simulated({"f"}, {.scalings = {{"h.0.*", 0.5}}}).getStep(),
            kMs + kMs + kMs / 2);
  EXPECT_EQ(simulated({"f"}, {.scalings = {{"broadcast", 3}}}).getStep(),
            6 * kMs);
  EXPECT_EQ(simulated({"f"}, {.scalings = {{"copy", 2}}}).getStep(), 7 * kMs);
  simulated({"f"}, {.scalings = {{"h.7.*", 2}, {"h.1.*", 2}}});
  EXPECT_EQ(countMatches(), (std::vector<int64_t>{0, 1}));
  // Of one rank, for which its neighbours wait.
  const Simulation late = simulated({"f"}, {.scalings = {{"h.0.*", 2, 3}}});
  EXPECT_EQ(late.getStep(), 7 * kMs);
  EXPECT_EQ(late.ranks[3].computing, 5 * kMs);
  EXPECT_EQ(late.ranks[1].end, 7 * kMs);
  EXPECT_EQ(late.ranks[0].end, 4 * kMs);
}

TEST_F(SimulatorTest, MovesBucketsAtOnce) {
  beginFunction("f");
  std::vector<uint32_t> starts;
  for (int i = 0; i != 4; ++i) {
    compute(1);
    starts.push_back(start(Row, "h.0.up backward"));
  }
  for (uint32_t one : starts)
    wait(one);
  // Each takes the start-up of a link: one after the other, behind computing.
  EXPECT_EQ(simulated({"f"}).getStep(), 5 * kMs);
  machine.linkAlpha = 3e-3;
  EXPECT_EQ(simulated({"f"}).getStep(), 13 * kMs);
  // All begin with the last; or two and two.
  const double one = 16 * 4;
  EXPECT_EQ(simulated({"f"}, {.buckets = {{"* backward", 4 * one}}}).getStep(),
            7 * kMs);
  EXPECT_EQ(simulated({"f"}, {.buckets = {{"broadcast", 2 * one}}}).getStep(),
            8 * kMs);
  EXPECT_THAT(countMatches(), testing::ElementsAre(4));
  // None fits beside another.
  EXPECT_EQ(simulated({"f"}, {.buckets = {{"broadcast", one}}}).getStep(),
            13 * kMs);
  EXPECT_THAT(countMatches(), testing::ElementsAre(0));
}

TEST_F(SimulatorTest, ClosesBucketsBeforeTheyAreWaitedFor) {
  machine.linkAlpha = 3e-3;
  beginFunction("f");
  const uint32_t first = start(Row), second = start(Row);
  compute(1);
  wait(first);
  wait(second);
  wait(start(Row));
  EXPECT_EQ(simulated({"f"}).getStep(), 9 * kMs);
  EXPECT_EQ(simulated({"f"}, {.buckets = {{"broadcast", 1e9}}}).getStep(),
            6 * kMs);
}

TEST_F(SimulatorTest, InsertsBeforeWhatMatches) {
  for (int64_t cores : {0, 2}) {
    SCOPED_TRACE(cores);
    machine.computes.front().cores = cores;
    const Picoseconds slow = cores ? 2 : 1;
    if (!finished) {
      beginFunction("f");
      compute(1, "h.0.mlp");
      wait(start(Row, "h.0.up"));
      compute(1, "h.1.mlp");
    }
    const Picoseconds before = simulated({"f"}).getStep();
    for (const char *pattern : {"h.0.mlp", "h.1.mlp", "broadcast"}) {
      const Simulation result =
          simulated({"f"}, {.insertions = {{pattern, 3e-3}}});
      EXPECT_EQ(result.getStep(), before + slow * 3 * kMs) << pattern;
      Picoseconds path = 0;
      for (const CriticalPart &part : result.criticalPath)
        path += part.seconds;
      EXPECT_EQ(path, result.getStep()) << pattern;
      const auto &parts = timed->getParts();
      EXPECT_EQ(
          result.parts[std::ranges::find(parts, kInserted) - parts.begin()],
          slow * 3 * kMs);
    }
    // Others wait for the one rank.
    const Simulation one =
        simulated({"f"}, {.insertions = {{"h.0.*", 1e-3, 2}}});
    EXPECT_GT(one.ranks[0].exposed, kMs);
    EXPECT_EQ(countMatches(), std::vector<int64_t>{2});
  }
}

TEST_F(SimulatorTest, FusesNeighbours) {
  beginFunction("f");
  compute(3, "h.0.mlp");
  wait(start(Row));
  compute(2, "h.0.mlp");
  compute(1, "h.1.mlp");
  EXPECT_EQ(simulated({"f"}).getStep(), 7 * kMs);
  EXPECT_EQ(simulated({"f"}, {.fusions = {{"h.0.*"}}}).getStep(), 4 * kMs);
  EXPECT_EQ(countMatches(), std::vector<int64_t>{3});
  EXPECT_EQ(simulated({"f"}, {.fusions = {{"copy"}}}).getStep(), 3 * kMs);
  // Neither of two is both.
  EXPECT_EQ(simulated({"f"}, {.fusions = {{"h.0.*"}, {"h.1.*"}}}).getStep(),
            4 * kMs);
  EXPECT_EQ(countMatches(), (std::vector<int64_t>{3, 0}));
}

/// A millisecond for each operand that is read or written.
TEST_F(SimulatorTest, FusedKernelsDoNotReadWhatTheyWrite) {
  machine.computes.front().kernelAlpha = 0;
  machine.computes.front().bytesPerSecond = 16 * 4 * 1e3;
  beginFunction("f");
  f->copy(place(0), place(1));
  f->copy(place(1), place(2));
  f->copy(place(0), place(3));
  EXPECT_EQ(simulated({"f"}).getStep(), 6 * kMs);
  EXPECT_EQ(simulated({"f"}, {.fusions = {{"copy"}}}).getStep(), 5 * kMs);
}

/// A rank may compute as much more before a command as its slack says, and what
/// is beyond makes the step longer.
TEST_F(SimulatorTest, SlackMayBeUsed) {
  for (unsigned seed = 0; seed != 12; ++seed) {
    std::mt19937 random(seed);
    ProgramWriter writer(optimus_support::Mesh({{"row", 2}, {"col", 2}}));
    begin(writer.function("f"));
    memory = f->arena(ElementType::F32, 256);
    std::vector<uint32_t> open;
    constexpr int kSteps = 10;
    for (int step = 0; step != kSteps; ++step) {
      compute(1, "c" + std::to_string(step));
      for (unsigned i = random() % 3; i != 0; --i)
        open.push_back(start(random() % 2 ? Row : Col));
      for (unsigned i = random() % 3; i != 0 && !open.empty(); --i) {
        const size_t at = random() % open.size();
        wait(open[at]);
        open.erase(open.begin() + int64_t(at));
      }
    }
    for (uint32_t command : open)
      wait(command);
    finished = writer.finish();
    WhatIf whatIf{.stragglers = {{int64_t(random() % 4), 2}}};
    whatIf.overlap = seed % 4 == 3 ? Overlap::None : Overlap::Scheduled;
    simulated({"f"}, whatIf);
    const auto plain = simulate(*timed, {"f"}, whatIf, {.slack = true});
    const auto unfolded =
        simulate(*timed, {"f"}, whatIf, {.fold = false, .slack = true});
    ASSERT_TRUE(plain.ok() && unfolded.ok());
    const std::unique_ptr<TimedProgram> kept = std::move(timed);
    Picoseconds least = plain->getStep();
    for (const Slack &slack : plain->slack) {
      EXPECT_EQ(slack.calls, unfolded->slack[slack.rank].calls);
      const auto &commands = kept->getFunction(slack.rank, "f").commands;
      const bool isLate = slack.rank == whatIf.stragglers.front().rank;
      for (size_t number = 0, step = 0; number != commands.size(); ++number) {
        const Picoseconds one = slack.calls[0][number];
        EXPECT_EQ(one == kNoSlack, commands[number].kind == TimedCommand::Wait);
        if (commands[number].kind != TimedCommand::Compute)
          continue;
        least = std::min(least, one);
        for (Picoseconds beyond : {Picoseconds(0), kMs}) {
          WhatIf later = whatIf;
          later.insertions = {{"c" + std::to_string(step),
                               double(one + beyond) * 1e-12 / (isLate ? 2 : 1),
                               slack.rank}};
          EXPECT_EQ(simulated({"f"}, later).getStep(),
                    plain->getStep() + beyond)
              << "seed " << seed << ", rank " << slack.rank << ", c" << step;
        }
        ++step;
      }
    }
    EXPECT_EQ(least, 0);
  }
}

} // namespace
