//===- ReplayTest.cpp - Steps of a run, gone through again ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatorFixture.h"

#include "Turns.h"

#include "optimus/Prices/RunTimes.h"

#include <algorithm>

using namespace optimus_simulation;
using optimus_prices::MeasuredCommand;
using optimus_prices::RunCall;
using optimus_prices::RunProfile;
using optimus_prices::RunSpan;
using optimus_prices::RunTimes;

namespace {

RunSpan toNanoseconds(CallTimes::Span span) {
  return {span.begin / 1000, span.end / 1000};
}

/// Runs made by the simulator itself, or written by hand.
class ReplayTest : public SimulatorTest {
protected:
  const FunctionT &getFunction() const {
    return *finished->targets.front()->tables.front()->functions.front();
  }

  /// Of the one function of the programs.
  RunProfile beginProfile() {
    finished = programs.finish();
    const TargetT &target = *finished->targets.front();
    RunProfile profile;
    profile.hosts = {"here"};
    profile.backend = "simulated";
    auto &function = profile.functions[0];
    function.name = getFunction().name;
    for (size_t number = 0; number != getFunction().commands.size(); ++number) {
      const CommandT &command = *getFunction().commands[number];
      if (const WaitT *wait = command.action.AsWait()) {
        function.waits[int64_t(number)] = wait->command;
        continue;
      }
      const auto key = optimus_prices::getKey(target, *target.tables.front(),
                                              getFunction(), command);
      function.places[int64_t(number)] = profile.commands.size();
      MeasuredCommand &measured = profile.commands.emplace_back();
      measured.function = key.function;
      measured.kind = key.kind;
      measured.kernel = key.kernel;
      measured.path = key.pathWithPhase;
      measured.number = int64_t(number);
      measured.bytes = key.bytes;
      measured.written = key.written;
      if (const CollectiveT *one = command.action.AsCollective()) {
        measured.ranks = 2;
        measured.stride = one->axes.front() == Col ? 1 : 2;
        measured.axes = one->axes.front() == Col ? "col" : "row";
        measured.largest = measured.bytes;
      }
    }
    return profile;
  }

  static void addStep(RunProfile &profile, const Simulation &simulation) {
    const auto number = int64_t(profile.steps.size());
    profile.middle.push_back(number);
    auto &step = profile.steps[number];
    for (const Timeline &timeline : simulation.timelines) {
      RunCall &call = step.calls.emplace_back();
      call.rank = timeline.rank;
      const CallTimes &times = timeline.calls.front();
      call.span = toNanoseconds(times.call);
      for (size_t one = 0; one != times.commands.size(); ++one)
        call.commands.push_back(
            {int64_t(one), toNanoseconds(times.commands[one])});
      for (const CallTimes::Transfer &one : times.transfers)
        call.transfers.push_back({one.command, toNanoseconds(one.span)});
    }
  }

  /// What the simulator says of the function, with the times of all ranks.
  Simulation record(const WhatIf &whatIf) {
    timed = std::make_unique<TimedProgram>(
        *finished, *finished->targets.front(), machine, whatIf);
    auto result = simulate(*timed, {getFunction().name}, whatIf,
                           {.fold = false, .record = true});
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *std::move(result);
  }

  Simulation replay(const RunTimes &run, const WhatIf &whatIf = {}) {
    timed = std::make_unique<TimedProgram>(
        *finished, *finished->targets.front(), machine, whatIf, &run);
    auto result = simulateSteps(
        *timed, std::vector<CallList>{{getFunction().name}}, whatIf);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *std::move(result);
  }

  /// Two waits on each axis, one of them for what lies under other commands.
  void writeFunction() {
    beginFunction("f");
    compute(2);
    const uint32_t beside = start(Row);
    compute(3);
    wait(start(Col));
    compute(1);
    wait(beside);
    compute(2);
  }
};

/// Ranks wait for late ones, each as long as it did.
TEST_F(ReplayTest, RanksHaveTheirOwnTimes) {
  writeFunction();
  RunProfile profile = beginProfile();
  const WhatIf late{.stragglers = {{3, 2.0}, {1, 1.5}}};
  const Simulation real = record(late);
  addStep(profile, real);
  const RunTimes run(profile);
  const Simulation found = replay(run);
  ASSERT_GT(real.ranks[0].exposed, real.ranks[3].exposed + kMs);
  EXPECT_EQ(found.getStep(), real.getStep());
  for (int64_t rank = 0; rank != 4; ++rank) {
    EXPECT_EQ(found.ranks[rank].end, real.ranks[rank].end) << rank;
    EXPECT_EQ(found.ranks[rank].computing, real.ranks[rank].computing) << rank;
    EXPECT_EQ(found.ranks[rank].exposed, real.ranks[rank].exposed) << rank;
  }
  // The late rank's products are in nobody else's way when all are twice as
  // fast.
  WhatIf faster = late;
  faster.scalings = {{.pattern = "copy", .factor = 0.5}};
  EXPECT_EQ(replay(run, {.scalings = faster.scalings}).getStep(),
            record(faster).getStep());
}

/// Of two steps with another late rank each, the mean is that of their lengths;
/// the mean rank is never late.
TEST_F(ReplayTest, StepsHaveTheirOwnTimes) {
  writeFunction();
  RunProfile profile = beginProfile();
  const Simulation first = record({.stragglers = {{0, 2.0}}}),
                   second = record({.stragglers = {{3, 3.0}}});
  addStep(profile, first);
  addStep(profile, second);
  const RunTimes run(profile);
  const Simulation found = replay(run);
  EXPECT_EQ(found.getStep(), (first.getStep() + second.getStep()) / 2);
  EXPECT_EQ(found.slowest, 3);
  EXPECT_EQ(found.ranks[3].end, (first.ranks[3].end + second.ranks[3].end) / 2);
  Picoseconds parts = 0;
  for (Picoseconds part : found.parts)
    parts += part;
  EXPECT_EQ(parts + sum(found).all, found.getStep());
}

/// Four ranks shared as many cores with their collectives. Nothing is stretched
/// twice, and where less is computed, all is faster.
TEST_F(ReplayTest, CoresAreSharedOnce) {
  collectOnTwoCores();
  machine.computes.front().cores = 4;
  writeFunction();
  RunProfile profile = beginProfile();
  const WhatIf late{.stragglers = {{3, 2.0}}};
  const Simulation real = record(late);
  addStep(profile, real);
  const RunTimes run(profile);
  // The clock of a profile has nanoseconds.
  constexpr double kClock = 1e-3 * kMs;
  EXPECT_NEAR(double(replay(run).getStep()), double(real.getStep()), kClock);
  WhatIf none = late;
  none.scalings = {{.pattern = "copy", .factor = 0}};
  EXPECT_NEAR(double(replay(run, {.scalings = none.scalings}).getStep()),
              double(record(none).getStep()), kClock);
  EXPECT_LT(record(none).getStep(), real.getStep() / 2);
}

constexpr int64_t kMillion = 1'000'000;

/// Four ranks took turns on two cores: those that had no core in their wait did
/// nothing then, and are shorter where the others are.
TEST_F(ReplayTest, RanksTakeTurns) {
  machine.computes.front().cores = 2;
  beginFunction("f");
  compute(1);
  wait(start(Row));
  compute(1);
  RunProfile profile = beginProfile();
  profile.backend = "tcp";
  profile.middle = {0};
  // Each computes for 2 ms, twice, and the collectives take one.
  for (int64_t rank = 0; rank != 4; ++rank) {
    const int64_t first = rank < 2 ? 0 : 2, second = first + 5;
    auto span = [](int64_t begin, int64_t end) {
      return RunSpan{begin * kMillion, end * kMillion};
    };
    profile.steps[0].calls.push_back(
        {.rank = rank,
         .span = span(first, second + 2),
         .commands = {{0, span(first, first + 2)},
                      {1, span(first + 2, first + 2)},
                      {2, span(first + 2, second)},
                      {3, span(second, second + 2)}},
         .transfers = {{1, span(first + 2, 5)}}});
  }
  const RunTimes run(profile);
  EXPECT_EQ(replay(run).getStep(), 9 * kMs);
  // From 0 to 1 and from 2 to 3, and then from 4 to 5 and 6.
  const WhatIf half{.scalings = {{.pattern = "copy", .factor = 0.5}}};
  EXPECT_EQ(replay(run, half).getStep(), 6 * kMs);
}

/// The example of the header; and beyond a slice of time a rank gives its core
/// to another in wait.
TEST(Turns, GiveCoresToThoseInWait) {
  auto follow = [](Picoseconds each) {
    Turns turns(/*numMachines=*/1, /*coresPerMachine=*/2);
    for (uint32_t actor = 0; actor != 3; ++actor)
      turns.compute(actor, 0, 0, each);
    std::vector<Picoseconds> ends(3);
    while (!turns.isIdle())
      for (const uint32_t actor : turns.advance())
        ends[actor] = turns.getTime();
    EXPECT_EQ(turns.getBusy(0), 3 * each);
    return ends;
  };
  EXPECT_EQ(follow(2 * kMs),
            (std::vector<Picoseconds>{2 * kMs, 2 * kMs, 4 * kMs}));
  // The third from 3 to 6 and from 6 to 7, the first from 3 and the second from
  // 6 on.
  EXPECT_EQ(follow(4 * kMs),
            (std::vector<Picoseconds>{4 * kMs, 5 * kMs, 7 * kMs}));
}

/// A meeting's processors come first, and who waits for it keeps the core.
TEST(Turns, MoveDataFirst) {
  constexpr uint32_t kMeeting = 9;
  Turns turns(1, 1);
  turns.compute(0, 0, 0, kMs);
  turns.compute(1, 0, 0, kMs);
  EXPECT_EQ(turns.advance(), std::vector<uint32_t>{0});
  turns.move(kMeeting, 0, kMs, kMs,
             {{.machine = 0, .workers = 1, .processors = kMs}});
  EXPECT_EQ(turns.advance(), std::vector<uint32_t>{kMeeting});
  turns.compute(0, 0, 2 * kMs, kMs);
  EXPECT_EQ(turns.advance(), std::vector<uint32_t>{0});
  EXPECT_EQ(turns.advance(), std::vector<uint32_t>{1});
  EXPECT_EQ(turns.getTime(), 4 * kMs);
}

/// Threads move data when one of them waits for it: a collective of a
/// millisecond is under way for five.
TEST_F(ReplayTest, ThreadsBeginWhenSomebodyWaits) {
  collectOnTwoCores();
  machine.computes.front().cores = 4;
  machine.collectives.front().processors = {{0, 0}, {1e9, 0}};
  beginFunction("f");
  const uint32_t one = start(Row);
  compute(1);
  wait(one);
  RunProfile profile = beginProfile();
  profile.backend = "local";
  profile.middle = {0};
  for (int64_t rank = 0; rank != 4; ++rank)
    profile.steps[0].calls.push_back(
        {.rank = rank,
         .span = {0, 5 * kMillion},
         .commands = {{0, {0, 0}},
                      {1, {0, 4 * kMillion}},
                      {2, {4 * kMillion, 5 * kMillion}}},
         .transfers = {{0, {0, 5 * kMillion}}}});
  const RunTimes run(profile);
  const Simulation found = replay(run);
  EXPECT_EQ(found.getStep(), 5 * kMs);
  EXPECT_EQ(found.ranks[0].exposed, kMs);
  Picoseconds path = 0;
  for (const CriticalPart &part : found.criticalPath)
    path += part.seconds;
  EXPECT_EQ(path, 5 * kMs);
  EXPECT_EQ(replay(run, {.overlap = Overlap::None}).getStep(), 5 * kMs);
  // Over a network it would have been under way, and taken five.
  profile.backend = "tcp";
  const RunTimes other(profile);
  EXPECT_EQ(replay(other).getStep(), 5 * kMs);
  EXPECT_EQ(replay(other, {.overlap = Overlap::None}).getStep(), 9 * kMs);
}

} // namespace
