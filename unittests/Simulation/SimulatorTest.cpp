//===- SimulatorTest.cpp - All ranks in time ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Folding.h"
#include "SimulatorFixture.h"

#include "optimus/Prices/ProgramWork.h"
#include "optimus/Prices/StepTimeline.h"

#include <gmock/gmock.h>

#include <random>

using namespace optimus_simulation;
using testing::HasSubstr;

namespace {

TEST_F(SimulatorTest, HidesCommunicationBehindComputing) {
  beginFunction("f");
  const uint32_t hidden = start(Row);
  compute(3);
  wait(hidden);
  const Simulation result = simulated({"f"});
  EXPECT_EQ(result.getStep(), 3 * kMs);
  EXPECT_EQ(sum(result).count, 0);
  EXPECT_EQ(result.ranks[0].communicating, kMs);
}

TEST_F(SimulatorTest, TellsWhyRanksWait) {
  beginFunction("f");
  const uint32_t first = start(Row), second = start(Row);
  wait(first);
  compute(1);
  // Behind the first on its link for 1 ms, and done after 2.
  wait(second);
  const uint32_t other = start(Col);
  wait(other);
  const Simulation result = simulated({"f"});
  EXPECT_EQ(result.getStep(), 3 * kMs);
  EXPECT_EQ(result.ranks[0].computing, kMs);
  const Exposure all = sum(result);
  EXPECT_EQ(all.count, 2);
  EXPECT_EQ(all.all, 2 * kMs);
  EXPECT_EQ(all.idle, 2 * kMs);
  EXPECT_EQ(all.late + all.queued + all.getShort(), 0);
}

TEST_F(SimulatorTest, LinksCarryOneAfterTheOther) {
  beginFunction("f");
  const uint32_t first = start(Row), second = start(Row);
  wait(second);
  wait(first);
  const Simulation result = simulated({"f"});
  EXPECT_EQ(result.getStep(), 2 * kMs);
  EXPECT_EQ(sum(result).queued, kMs);
  EXPECT_EQ(sum(result).idle, kMs);
}

TEST_F(SimulatorTest, AxesHaveTheirLinksOrShareOne) {
  beginFunction("f");
  const uint32_t first = start(Row), second = start(Col);
  wait(first);
  wait(second);
  EXPECT_EQ(simulated({"f"}).getStep(), kMs);
  machine.axesShareLink = true;
  EXPECT_EQ(simulated({"f"}).getStep(), 2 * kMs);
}

/// Rank 3 is late; ranks 1 and 2 wait for it in the first collective, rank 0
/// for them in the second.
TEST_F(SimulatorTest, LateRanksMakeOthersWait) {
  beginFunction("f");
  compute(2);
  wait(start(Row));
  wait(start(Col));
  EXPECT_EQ(simulated({"f"}).getStep(), 4 * kMs);
  const Simulation late = simulated({"f"}, {.stragglers = {{3, 2.0}}});
  EXPECT_EQ(late.getStep(), 6 * kMs);
  for (const RankTimes &rank : late.ranks)
    EXPECT_EQ(rank.end, 6 * kMs);
  EXPECT_EQ(late.ranks[3].computing, 4 * kMs);
  EXPECT_EQ(late.ranks[0].computing, 2 * kMs);
  EXPECT_EQ(late.ranks[0].exposed, 4 * kMs);
  // Rank 0 ends as late as the others and is the lowest of them.
  EXPECT_EQ(late.slowest, 0);
  EXPECT_EQ(sum(late).late, 2 * kMs);
  EXPECT_EQ(sum(late).idle, 2 * kMs);
}

TEST_F(SimulatorTest, TheCriticalPathGoesThroughTheLateRank) {
  beginFunction("f");
  compute(2, "h.0.mlp", "gpt2.py:7");
  wait(start(Row, "h.0.up"));
  compute(1, "h.0.attn");
  const Simulation late = simulated({"f"}, {.stragglers = {{3, 2.5}}});
  // Rank 1 meets rank 3 in the collective; ranks 0 and 2 have ended by then.
  EXPECT_EQ(late.getStep(), 5 * kMs + kMs + 5 * kMs / 2);
  EXPECT_EQ(late.slowest, 3);
  ASSERT_EQ(late.criticalPath.size(), 3u);
  EXPECT_EQ(late.criticalPath[0].path, "h.0.mlp");
  EXPECT_EQ(late.criticalPath[0].line, "gpt2.py:7");
  EXPECT_EQ(late.criticalPath[0].seconds, 5 * kMs);
  EXPECT_EQ(late.criticalPath[1].line, "");
  EXPECT_EQ(late.criticalPath[1].path, "h.0.attn");
  EXPECT_EQ(late.criticalPath[2].path, "h.0.up");
  EXPECT_EQ(late.criticalPath[2].what, "row");
  Picoseconds all = 0;
  for (const CriticalPart &part : late.criticalPath)
    all += part.seconds;
  EXPECT_EQ(all, late.getStep());
}

TEST_F(SimulatorTest, SequencesGoOnWithoutABarrier) {
  beginFunction("accumulate");
  compute(1);
  carry(Row, 7);
  beginFunction("update");
  compute(2);
  waitCarried(7);
  const Simulation result = simulated({"accumulate", "update"});
  EXPECT_EQ(result.getStep(), 3 * kMs);
  EXPECT_EQ(simulated({"accumulate"}).getStep(), kMs);
}

/// A step computes 2 ms, 1 before it needs what the step before carries.
TEST_F(SimulatorTest, AStepBeginsWithWhatIsCarried) {
  beginFunction("step");
  compute(1, "h.0");
  waitCarried(1);
  waitCarried(2);
  waitCarried(3);
  compute(1, "h.1");
  carry(Row, 1);
  carry(Row, 2, "w");
  carry(Col, 3);
  const Simulation result = simulated({"step"});
  // The second on its link ends 1 ms after it is needed.
  EXPECT_EQ(result.getStep(), 3 * kMs);
  EXPECT_EQ(result.ranks[0].computing, 2 * kMs);
  EXPECT_EQ(result.ranks[0].communicating, 3 * kMs);
  EXPECT_EQ(result.ranks[0].exposed, kMs);
  const CarriedTimes carried = result.ranks[0].carried;
  EXPECT_EQ(carried.count, 3);
  EXPECT_EQ(carried.all, 3 * kMs);
  EXPECT_EQ(carried.after, 2 * kMs);
  EXPECT_EQ(carried.exposed, kMs);
  // Both on the link take place in the step, behind the one before.
  Picoseconds all = 0;
  for (const CriticalPart &part : result.criticalPath)
    all += part.seconds;
  EXPECT_EQ(all, result.getStep());
  EXPECT_EQ(result.criticalPath[0].what, "row");
  // All later steps are alike.
  EXPECT_EQ(simulated({"step", "step"}).getStep(), 6 * kMs);
  EXPECT_EQ(simulated({"step", "step"}).ranks[0].carried.count, 6);
  EXPECT_EQ(simulated({"step"}, {.overlap = Overlap::None}).getStep(), 5 * kMs);
  EXPECT_EQ(simulated({"step"}, {.overlap = Overlap::Perfect}).getStep(),
            2 * kMs);
  StatusOr<Simulation> recorded =
      simulate(*timed, {"step"}, {}, {.record = true});
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  ASSERT_EQ(recorded->timelines[0].calls.size(), 1u);
  EXPECT_EQ(recorded->timelines[0].calls[0].call.begin, 0);
  EXPECT_EQ(recorded->timelines[0].calls[0].call.end, 3 * kMs);
}

/// Four ranks of a machine with two cores.
TEST_F(SimulatorTest, RanksShareTheCoresOfAMachine) {
  machine.computes.front().cores = 2;
  beginFunction("f");
  compute(2);
  wait(start(Row));
  // 4 ms at half the speed, and the collective.
  EXPECT_EQ(simulated({"f"}).getStep(), 5 * kMs);
  // The others are done after 4 ms; the late one then has a core of its own for
  // the other half of its 4 ms.
  const Simulation late = simulated({"f"}, {.stragglers = {{3, 2.0}}});
  EXPECT_EQ(late.getStep(), 7 * kMs);
  EXPECT_EQ(late.ranks[3].computing, 6 * kMs);
  EXPECT_EQ(late.ranks[0].computing, 4 * kMs);
  Picoseconds path = 0;
  for (const CriticalPart &part : late.criticalPath)
    path += part.seconds;
  EXPECT_EQ(path, late.getStep());
}

/// Ranks compute at half their speed, and two collectives at their own.
TEST_F(SimulatorTest, CollectivesWithoutProcessorsAreNotSlowedByCores) {
  machine.computes.front().cores = 2;
  beginFunction("f");
  const uint32_t first = start(Row), second = start(Row);
  compute(1);
  wait(first);
  wait(second);
  EXPECT_EQ(simulated({"f"}).getStep(), 2 * kMs);
}

/// A collective between two ranks takes a millisecond of two cores.
TEST_F(SimulatorTest, CollectivesShareCoresWithComputing) {
  collectOnTwoCores();
  beginFunction("f");
  wait(start(Row));
  beginFunction("g");
  const uint32_t beside = start(Row);
  compute(1);
  wait(beside);
  const Simulation alone = simulated({"f"});
  // Two groups, each for two cores.
  EXPECT_EQ(alone.getStep(), 2 * kMs);
  EXPECT_DOUBLE_EQ(alone.cores, 1);
  // Four ranks and collectives for four cores: a quarter of the speed.
  const Simulation both = simulated({"g"});
  EXPECT_EQ(both.getStep(), 4 * kMs);
  EXPECT_EQ(both.ranks[0].computing, 4 * kMs);
  EXPECT_EQ(both.ranks[0].exposed, 0);
}

/// The same where each member fetches its two operands from memory in a
/// millisecond, unless the collective before has just done so.
TEST_F(SimulatorTest, CollectivesFetchTheirOperands) {
  collectOnTwoCores();
  machine.computes.front().streams = {{128, 1e30}, {256, 192e3}};
  beginFunction("f");
  wait(start(Row));
  beginFunction("g");
  wait(start(Row));
  wait(start(Row));
  EXPECT_EQ(simulated({"f"}).getStep(), 4 * kMs);
  EXPECT_EQ(simulated({"g"}).getStep(), 6 * kMs);
  machine.computes.front().streams.clear();
  EXPECT_EQ(simulated({"f"}).getStep(), 2 * kMs);
}

/// A ring of messages: all ranks of a column send and receive at once.
TEST_F(SimulatorTest, MessagesMeetTheirReceivers) {
  beginFunction("f");
  compute(1);
  auto peer = [] {
    auto next = std::make_unique<IntegerT>();
    next->constant = 1;
    next->terms.emplace_back(-1, Row);
    return next;
  };
  SendT send;
  send.axis = Row;
  send.peer = peer();
  send.rows = 1;
  send.cols = send.ld = 16;
  send.group = 1;
  ReceiveT receive;
  receive.axis = Row;
  receive.peer = peer();
  receive.rows = 1;
  receive.cols = receive.ld = 16;
  receive.group = 1;
  ActionUnion sends, receives;
  sends.Set(std::move(send));
  receives.Set(std::move(receive));
  const uint32_t sent = f->add(std::move(sends), {place(2)});
  const uint32_t received = f->add(std::move(receives), {place(3)});
  wait(sent);
  wait(received);
  EXPECT_EQ(simulated({"f"}).getStep(), 2 * kMs);
  const Simulation late = simulated({"f"}, {.stragglers = {{2, 4.0}}});
  EXPECT_EQ(late.ranks[0].end, 5 * kMs);
  EXPECT_EQ(late.ranks[1].end, 2 * kMs);
}

/// Stages of a pipeline: rows 0 and 1 have tables of their own, and call
/// functions of their own.
class StagesTest : public SimulatorTest {
protected:
  /// To or from the other row, and waited for at once.
  template <typename Message>
  void exchange(const std::string &path) {
    Message message;
    message.axis = Row;
    message.peer = std::make_unique<IntegerT>();
    message.peer->constant = 1;
    message.peer->terms.emplace_back(-1, Row);
    message.rows = 1;
    message.cols = message.ld = 16;
    ActionUnion action;
    action.Set(std::move(message));
    f->from(path);
    wait(f->add(std::move(action), {place(2)}));
    f->from("");
  }

  void SetUp() override {
    programs.beginTable(2);
    beginFunction("first");
    compute(1);
    exchange<SendT>("h.0.sent");
    programs.beginTable(2);
    beginFunction("second");
    exchange<ReceiveT>("h.0.received");
    compute(2);
    finished = programs.finish();
    timed = std::make_unique<TimedProgram>(
        *finished, *finished->targets.front(), machine, WhatIf());
  }
};

TEST_F(StagesTest, CallTheirOwnFunctions) {
  const auto result = simulateTables(
      *timed, {{"first", "first"}, {"second", "second"}}, WhatIf());
  ASSERT_TRUE(result.ok()) << result.status().message();
  // Computing, sent until 2, 2 ms behind it; the second message waits for that.
  EXPECT_EQ(result->getStep(), 7 * kMs);
  EXPECT_EQ(result->slowest, 2);
  EXPECT_EQ(result->ranks[0].end, 5 * kMs);
  EXPECT_EQ(result->ranks[0].computing, 2 * kMs);
  EXPECT_EQ(result->ranks[3].computing, 4 * kMs);
  EXPECT_EQ(result->ranks[2].exposed, 3 * kMs);
}

TEST_F(StagesTest, WaitForEverWhereNobodySends) {
  const auto result =
      simulateTables(*timed, {{"first"}, {"second", "second"}}, WhatIf());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(),
            "2 ranks wait for ever: rank 2 waits in second for h.0.received "
            "(receive), to which rank 0 does not come; rank 3 waits in second "
            "for h.0.received (receive), to which rank 1 does not come");
}

/// By the cores of a machine.
class FoldedTest : public SimulatorTest,
                   public testing::WithParamInterface<int64_t> {};

/// One rank of a colour stands for all of it, to the bit.
TEST_P(FoldedTest, IsUnfolded) {
  machine.computes.front().cores = GetParam();
  const optimus_support::Mesh mesh({{"row", 4}, {"col", 6}});
  ProgramWriter wide(mesh);
  begin(wide.function("f"));
  memory = f->arena(ElementType::F32, 256);
  std::vector<uint32_t> open;
  for (int layer = 0; layer != 12; ++layer) {
    compute(1 + layer % 3, "h." + std::to_string(layer));
    // Backward comes to the first layers last.
    open.push_back(start(layer % 2 ? Row : Col,
                         "h." + std::to_string(11 - layer) + " backward"));
    if (layer % 4 == 3) {
      wait(open.front());
      open.erase(open.begin());
    }
  }
  for (uint32_t command : open)
    wait(command);
  finished = wide.finish();
  const std::vector<std::vector<Straggler>> late{
      {}, {{0, 2}}, {{7, 1.5}, {8, 1.5}}, {{3, 2}, {16, 0.5}, {23, 3}}};
  for (const std::vector<Straggler> &stragglers : late)
    for (Overlap overlap :
         {Overlap::Scheduled, Overlap::None, Overlap::Perfect})
      for (const std::vector<Priority> &priorities :
           {std::vector<Priority>(),
            std::vector<Priority>{Priority{"* backward"}}}) {
        const WhatIf whatIf{.stragglers = stragglers,
                            .priorities = priorities,
                            .overlap = overlap};
        const Simulation folded = simulated({"f", "f"}, whatIf);
        const auto unfolded =
            simulate(*timed, {"f", "f"}, whatIf, {.fold = false});
        ASSERT_TRUE(unfolded.ok());
        ASSERT_EQ(folded.ranks.size(), 24u);
        for (size_t rank = 0; rank != 24; ++rank) {
          EXPECT_EQ(folded.ranks[rank].end, unfolded->ranks[rank].end);
          EXPECT_EQ(folded.ranks[rank].computing,
                    unfolded->ranks[rank].computing);
          EXPECT_EQ(folded.ranks[rank].exposed, unfolded->ranks[rank].exposed);
          EXPECT_EQ(folded.ranks[rank].communicating,
                    unfolded->ranks[rank].communicating);
        }
        EXPECT_EQ(folded.slowest, unfolded->slowest);
        EXPECT_EQ(sum(folded).late, sum(*unfolded).late);
        EXPECT_EQ(sum(folded).queued, sum(*unfolded).queued);
        ASSERT_EQ(folded.criticalPath.size(), unfolded->criticalPath.size());
        for (size_t i = 0; i != folded.criticalPath.size(); ++i) {
          EXPECT_EQ(folded.criticalPath[i].path,
                    unfolded->criticalPath[i].path);
          EXPECT_EQ(folded.criticalPath[i].seconds,
                    unfolded->criticalPath[i].seconds);
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Cores, FoldedTest, testing::Values(0, 4));

/// The example of the header.
TEST_F(SimulatorTest, RanksAreColouredByTheirNeighbours) {
  ProgramWriter wide(optimus_support::Mesh({{"row", 2}, {"col", 3}}));
  begin(wide.function("f"));
  memory = f->arena(ElementType::F32, 256);
  wait(start(Row));
  wait(start(Col));
  finished = wide.finish();
  const WhatIf whatIf{.stragglers = {{0, 2}}};
  simulated({"f"}, whatIf);
  const Folding folding(*timed, whatIf, /*fold=*/true);
  std::vector<uint32_t> colours;
  for (int64_t rank = 0; rank != 6; ++rank)
    colours.push_back(folding.getActor(rank));
  EXPECT_EQ(colours, (std::vector<uint32_t>{0, 1, 1, 2, 3, 3}));
  EXPECT_EQ(Folding(*timed, {}, true).getNumActors(), 1u);
  EXPECT_EQ(Folding(*timed, {}, false).getNumActors(), 6u);
}

/// Collectives of two axes that ranks start in different orders.
TEST_F(SimulatorTest, NamesRanksThatWaitForEver) {
  writeCrossed();
  const StatusOr<Simulation> result = run({"f"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(),
            "4 ranks wait for ever: rank 0 waits in f for h.0.down "
            "(broadcast), to which rank 1 does not come; rank 1 waits in f for "
            "h.0.up (broadcast), to which rank 3 does not come; rank 2 waits "
            "in f for h.0.up (broadcast), to which rank 0 does not come; rank "
            "3 waits in f for h.0.down (broadcast), to which rank 2 does not "
            "come");
}

/// Without late ranks it is what predictStep says: of any prices, up to half a
/// picosecond a command.
TEST_F(SimulatorTest, IsTheTimelineOfOneRankWhereAllAreAlike) {
  beginFunction("f");
  std::vector<uint32_t> open;
  for (int layer = 0; layer != 8; ++layer) {
    GemmT gemm;
    gemm.m = gemm.n = gemm.k = 4;
    f->gemm(gemm, {.a = place(4), .b = place(5), .c = place(6)});
    open.push_back(start(layer % 3 == 0 ? Row : Col));
    if (layer % 2 == 0)
      f->fill(place(layer));
    if (layer % 3 == 1) {
      wait(open.front());
      open.erase(open.begin());
    }
  }
  for (uint32_t command : open)
    wait(command);
  machine = MachineProfile();
  const Simulation result = simulated({"f"});

  const TargetT &target = *finished->targets.front();
  const FunctionT &function = *target.tables.front()->functions.front();
  const optimus_prices::MachinePrices prices(machine, 4);
  optimus_prices::ProgramReuse reuse(target, function, /*ranksOfCore=*/1);
  optimus_prices::StepTimeline timeline;
  const std::string names[] = {"row", "col"};
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    const auto touches = reuse.advance();
    if (const WaitT *one = command.action.AsWait())
      timeline.wait(one->command);
    else if (const CollectiveT *one = command.action.AsCollective())
      timeline.start(
          number, names[one->axes[0]], one->kind,
          prices.getSeconds(one->kind, {2, one->axes[0] ? 1 : 2}, 64),
          names[one->axes[0]]);
    else
      timeline.compute(
          prices.getSeconds(optimus_prices::getCommandWork(target, command),
                            touches),
          optimus_prices::getWorkName(command));
  }
  const optimus_prices::StepPrediction step = timeline.endCall();
  const double tolerance = 0.5e-12 * double(function.commands.size());
  EXPECT_NEAR(double(result.getStep()) * 1e-12, step.getSeconds(), tolerance);
  EXPECT_NEAR(double(result.ranks[0].computing) * 1e-12, step.computeSeconds,
              tolerance);
  EXPECT_NEAR(double(result.ranks[0].communicating) * 1e-12, step.commSeconds,
              tolerance);
  EXPECT_NEAR(double(result.ranks[0].exposed) * 1e-12, step.exposedSeconds,
              tolerance);
  ASSERT_GT(step.exposedSeconds, 1e-6);
  ASSERT_EQ(step.parts.size(), 2u);
}

} // namespace
