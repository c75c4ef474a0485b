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

/// Forward and backward through three layers, a millisecond each, whose
/// gradients take three on one link; then four of update for each.
class LayersTest : public SimulatorTest {
protected:
  LayersTest() {
    machine.linkAlpha = 3e-3;
    beginFunction("f");
    for (int layer = 0; layer != 3; ++layer)
      compute(1, getName(layer));
    std::vector<uint32_t> starts(3);
    for (int layer = 2; layer >= 0; --layer) {
      compute(1, getName(layer) + " backward");
      starts[layer] = start(Row, getName(layer) + " backward");
    }
    for (int layer = 0; layer != 3; ++layer) {
      wait(starts[layer]);
      compute(4, getName(layer) + " update");
    }
  }
  static std::string getName(int layer) {
    return "h." + std::to_string(layer) + ".up";
  }
};

TEST_F(LayersTest, MayGoFirst) {
  // Links are free of the gradients of 2, 1, 0 at 7, 10 and 13.
  EXPECT_EQ(simulated({"f"}).getStep(), 25 * kMs);
  // At 7 both others wait, and 0 goes before 1.
  const WhatIf all{.priorities = {{"* backward"}}};
  const Simulation first = simulated({"f"}, all);
  EXPECT_EQ(first.getStep(), 22 * kMs);
  EXPECT_THAT(countMatches(), testing::ElementsAre(3));
  Picoseconds path = 0;
  for (const CriticalPart &part : first.criticalPath)
    path += part.seconds;
  EXPECT_EQ(path, first.getStep());
  // What keeps its order is not overtaken.
  EXPECT_EQ(simulated({"f"}, {.priorities = {{"h.[02].*"}}}).getStep(),
            25 * kMs);
  // On faster links nothing waits.
  machine.linkAlpha = 1e-3;
  EXPECT_EQ(simulated({"f"}, all).getStep(), simulated({"f"}).getStep());
}

/// Its neighbour posts 0 after the link has gone on with 1: both carry the
/// same.
TEST_F(LayersTest, GoFirstOnceAllHaveThem) {
  const WhatIf late{.stragglers = {{3, 2}}, .priorities = {{"broadcast"}}};
  const Simulation result = simulated({"f"}, late);
  // Of rank 3 gradients begin at 8, 11 and 14; the others' at 4, 7 and 10.
  EXPECT_EQ(result.ranks[3].end, 17 * kMs + 24 * kMs);
  EXPECT_EQ(result.ranks[1].end, 17 * kMs + 12 * kMs);
  EXPECT_EQ(result.ranks[0].end, 22 * kMs);
  const auto unfolded = simulate(*timed, {"f"}, late, {.fold = false});
  ASSERT_TRUE(unfolded.ok());
  for (int rank = 0; rank != 4; ++rank)
    EXPECT_EQ(unfolded->ranks[rank].end, result.ranks[rank].end);
}

/// On a cluster, and with slack.
TEST_F(LayersTest, GoFirstOnLinks) {
  Cluster cluster;
  cluster.nic = {1e30, 3e-3};
  const WhatIf all{.priorities = {{"broadcast"}}};
  simulated({"f"}, all);
  for (bool fold : {true, false}) {
    const auto result = simulate(
        *timed, {"f"}, all, {.cluster = &cluster, .fold = fold, .slack = true});
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_NEAR(double(result->getStep()), 22.0 * kMs, 10);
  }
}

/// A bucket goes with the first of its layers.
TEST_F(LayersTest, GoFirstInBuckets) {
  const double one = 16 * 4;
  const WhatIf both{.buckets = {{"h.[01].* backward", 2 * one}},
                    .priorities = {{"* backward"}}};
  // 2 to 7, then 1 and 0 together to 10.
  EXPECT_EQ(simulated({"f"}, both).getStep(), 22 * kMs);
  EXPECT_THAT(countMatches(), testing::ElementsAre(2, 3));
}

/// Two ranks that start collectives of two axes in different orders.
TEST_F(SimulatorTest, NamesRanksThatWaitInAnyOrder) {
  writeCrossed();
  const WhatIf byLayer{.priorities = {{"broadcast"}}};
  const StatusOr<Simulation> result = run({"f"}, byLayer);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), run({"f"}).status().message());
}

/// Computing and collectives that slow each other on a device.
class InterferenceTest : public SimulatorTest {
protected:
  InterferenceTest() {
    machine.linkAlpha = 4e-3;
    slow(1.5, 2);
    beginFunction("f");
    const uint32_t one = start(Row);
    compute(3);
    wait(one);
  }
  void slow(double computing, double collective) {
    machine.interference = {.source = "the example of Devices.h",
                            .computing = {{"copy", computing}},
                            .collectives = {{"broadcast", collective}}};
  }
};

TEST_F(InterferenceTest, SlowsBoth) {
  const Simulation both = simulated({"f"});
  EXPECT_EQ(both.getStep(), 6 * kMs + kMs / 4);
  EXPECT_EQ(both.ranks[0].computing, 4 * kMs + kMs / 2);
  slow(1.5, 1);
  EXPECT_EQ(simulated({"f"}).getStep(), 4 * kMs + kMs / 3 + 1);
  slow(1, 2);
  EXPECT_EQ(simulated({"f"}).getStep(), 5 * kMs + kMs / 2);
  machine.interference.reset();
  EXPECT_EQ(simulated({"f"}).getStep(), 4 * kMs);
}

/// A collective is slow as long as one of its members computes.
TEST_F(InterferenceTest, IsOfMembersThatCompute) {
  const WhatIf late{.stragglers = {{3, 2}}};
  const Simulation result = simulated({"f"}, late);
  EXPECT_EQ(result.ranks[0].end, 6 * kMs + kMs / 4);
  // Of the other column it takes 8, in which rank 3 computes 16 thirds of its
  // 6, and rank 1 waits for the last of them.
  EXPECT_EQ(result.ranks[1].end, 8 * kMs);
  EXPECT_EQ(result.ranks[3].end, 8 * kMs + 2 * kMs / 3 + 1);
}

TEST_F(InterferenceTest, CountsWhereItDecides) {
  // Behind computing a collective may take longer.
  ProgramWriter writer(optimus_support::Mesh({{"row", 2}, {"col", 2}}));
  begin(writer.function("f"));
  memory = f->arena(ElementType::F32, 256);
  const uint32_t one = start(Row);
  compute(20);
  wait(one);
  finished = writer.finish();
  slow(1, 2);
  EXPECT_EQ(simulated({"f"}).getStep(), 20 * kMs);
  slow(1.5, 2);
  // It lasts for 8, in which 16 thirds are computed.
  EXPECT_EQ(simulated({"f"}).getStep(), 28 * kMs - 16 * kMs / 3);
}

TEST_F(InterferenceTest, IsOfLinksToo) {
  Cluster cluster;
  // 64 bytes take as long as above.
  cluster.nic = {16e3, 0};
  simulated({"f"});
  for (bool fold : {true, false}) {
    const auto result =
        simulate(*timed, {"f"}, {}, {.cluster = &cluster, .fold = fold});
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_NEAR(double(result->getStep()), 6.25 * kMs, 10);
  }
  EXPECT_EQ(
      simulate(*timed, {"f"}, {}, {.cluster = &cluster, .everyMessage = true})
          .status()
          .message(),
      "expected a machine profile without interference, which is of "
      "whole collectives, since every message is simulated");
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
