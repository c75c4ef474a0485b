//===- ProgramMeetingsTest.cpp - That all ranks come to the end -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

#include <ctime>
#include <functional>
#include <optional>
#include <random>

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// Ranks of row:2,col:2 with tables of their own.
class ProgramTablesTest : public ProgramTest {
protected:
  ProgramTablesTest() : ProgramTest(Mesh({{"row", 2}, {"col", 2}})) {}

  /// Begins the table of some ranks, which reduce in this order.
  void table(int64_t ranks, uint32_t axis, std::vector<int64_t> elements) {
    programs.beginTable(ranks);
    FunctionWriter f = programs.function("f");
    View x = f.argument(ElementType::F32, 64);
    for (int64_t count : elements) {
      f.from("h." + std::to_string(count), "x.py:3");
      View part = f.at(x, 0, count);
      f.wait(f.collective(CollectiveKind::AllReduce, {axis}, part, part));
    }
  }
  void accept() {
    Status status = check(programs.finish());
    EXPECT_TRUE(status.ok()) << status.message();
  }
};

TEST_F(ProgramTablesTest, RanksOfAGroupStartTheSameInOrder) {
  // Ranks 0 and 1 are in one group of `col`, and 0 and 2 in one of `row`.
  table(2, /*axis=*/0, {8, 16});
  table(2, /*axis=*/0, {16, 8});
  refuse("function f: ranks 0 and 2 start different collectives: rank 0 starts "
         "all_reduce of 1x8 f32 on mesh axis row (call 0 of f on rank 0: h.8 "
         "(all_reduce, x.py:3), command 0), and rank 2 starts all_reduce of "
         "1x16 f32 on mesh axis row (call 0 of f on rank 2: h.16 (all_reduce, "
         "x.py:3), command 0)");
}

TEST_F(ProgramTablesTest, OneMayNotStartMore) {
  table(2, /*axis=*/0, {8, 16});
  table(2, /*axis=*/0, {8});
  refuse("rank 0 starts all_reduce of 1x16 f32 on mesh axis row (call 0 of f "
         "on rank 0: h.16 (all_reduce, x.py:3), command 2); rank 2 ends "
         "without it");
}

TEST_F(ProgramTablesTest, RanksOfDifferentGroupsDiffer) {
  table(2, /*axis=*/1, {8, 16});
  table(2, /*axis=*/1, {16, 8, 8});
  accept();
}

TEST_F(ProgramTablesTest, SequencesAreInAllTables) {
  table(2, /*axis=*/1, {8});
  programs.sequence("s", {{"f", 1}});
  table(2, /*axis=*/1, {8});
  programs.sequence("t", {{"f", 1}});
  refuse("sequence t is in a later table only; expected it in all");
}

/// Stages of a pipeline on pipe:S,row:2, each with a table of its own, whose
/// functions send and receive 4 numbers.
class ProgramStagesTest : public testing::Test {
protected:
  explicit ProgramStagesTest(int64_t stages = 2)
      : programs(std::in_place, Mesh({{"pipe", stages}, {"row", 2}})) {}

  /// A function that receives from a stage and sends to one; -1: from or to
  /// none.
  void function(const std::string &name, int from, int to) {
    FunctionWriter f = programs->function(name);
    View in = f.arena(ElementType::F32, 4), out = f.arena(ElementType::F32, 4);
    if (from >= 0)
      f.wait(f.message(false, 0, from, in));
    f.wait(f.collective(CollectiveKind::AllReduce, {1}, in, in));
    f.fill(out);
    if (to >= 0)
      f.wait(f.message(true, 0, to, out));
  }
  Status result() { return check(programs->finish()); }

  /// Two stages; the sequence of each is written by `first` and `last`.
  using Write = std::function<void(SequenceWriter &)>;
  void twoStages(const Write &first, const Write &last) {
    programs->beginTable(2);
    function("forward0", -1, 1);
    function("backward0", 1, -1);
    SequenceWriter one = programs->sequence("train");
    first(one);
    programs->beginTable(2);
    function("forward1", 0, -1);
    function("backward1", -1, 0);
    SequenceWriter other = programs->sequence("train");
    last(other);
  }

  std::optional<ProgramWriter> programs;
};

TEST_F(ProgramStagesTest, RunForwardsAndThenBackwards) {
  auto gpipe = [](const std::string &stage) {
    return [stage](SequenceWriter &steps) {
      steps.loop(4, [&](SequenceWriter &body) { body.call("forward" + stage); })
          .loop(4,
                [&](SequenceWriter &body) { body.call("backward" + stage); });
    };
  };
  twoStages(gpipe("0"), gpipe("1"));
  EXPECT_TRUE(result().ok()) << result().message();
}

TEST_F(ProgramStagesTest, RunAsOftenAsTheCallerSays) {
  auto gpipe = [](const std::string &stage) {
    return [stage](SequenceWriter &steps) {
      steps.loop(0, [&](SequenceWriter &body) { body.call("forward" + stage); })
          .loop(0,
                [&](SequenceWriter &body) { body.call("backward" + stage); });
    };
  };
  twoStages(gpipe("0"), gpipe("1"));
  EXPECT_TRUE(result().ok()) << result().message();
}

/// What the caller counts may stand before or behind as many of the same.
TEST_F(ProgramStagesTest, EqualLoopsMayBeInEitherOrder) {
  auto forwards = [](const std::string &stage, uint32_t first,
                     uint32_t second) {
    return [=](SequenceWriter &steps) {
      for (uint32_t times : {first, second})
        steps.loop(times,
                   [&](SequenceWriter &body) { body.call("forward" + stage); });
    };
  };
  for (uint32_t first : {0, 2, 3}) {
    programs.emplace(Mesh({{"pipe", 2}, {"row", 2}}));
    twoStages(forwards("0", 2, 0), forwards("1", first, first == 0 ? 2 : 0));
    const Status found = result();
    if (first == 3)
      EXPECT_THAT(found.message(), HasSubstr("rank 2 expects 1x4 f32"));
    else
      EXPECT_TRUE(found.ok()) << found.message();
  }
}

/// Calls that are alike on one rank need not be on the other.
TEST_F(ProgramStagesTest, EqualCallsBeforeALoopMayMeetOthers) {
  twoStages(
      [](SequenceWriter &steps) {
        steps.call("forward0").loop(0, [](SequenceWriter &body) {
          body.call("forward0");
        });
      },
      [&](SequenceWriter &steps) {
        function("other1", 0, -1);
        steps.call("forward1").loop(0, [](SequenceWriter &body) {
          body.call("other1");
        });
      });
  const Status found = result();
  EXPECT_TRUE(found.ok()) << found.message();
}

TEST_F(ProgramStagesTest, DoNotWaitForEachOther) {
  twoStages(
      [](SequenceWriter &steps) {
        steps.loop(2, [](SequenceWriter &body) { body.call("forward0"); })
            .loop(2, [](SequenceWriter &body) { body.call("backward0"); });
      },
      [](SequenceWriter &steps) {
        steps.loop(2, [](SequenceWriter &body) {
          body.call("forward1").call("backward1");
        });
      });
  EXPECT_THAT(
      result().message(),
      HasSubstr(
          "sequence train: ranks wait for each other: rank 0 sends 1x4 f32 to "
          "rank 2 (call 0 of forward0 on turn 1 on rank 0: command 3 (send)); "
          "meanwhile rank 2 sends 1x4 f32 to rank 0 (call 1 of backward1 on "
          "turn 0 on rank 2: command 3 (send)); meanwhile rank 0 waits"));
}

TEST_F(ProgramStagesTest, CallsMissNone) {
  twoStages(
      [](SequenceWriter &steps) {
        steps.loop(2, [](SequenceWriter &body) { body.call("forward0"); })
            .call("backward0");
      },
      [](SequenceWriter &steps) { steps.call("forward1").call("backward1"); });
  EXPECT_THAT(result().message(),
              HasSubstr("ranks wait for each other: rank 0 sends"));
}

TEST_F(ProgramStagesTest, NoneEndsWithoutTheOther) {
  twoStages([](SequenceWriter &steps) { steps.call("forward0"); },
            [](SequenceWriter &steps) {
              steps.loop(2,
                         [](SequenceWriter &body) { body.call("forward1"); });
            });
  EXPECT_THAT(result().message(),
              HasSubstr("rank 2 expects 1x4 f32 from rank 0 (call 0 of "
                        "forward1 on turn 1 on rank 2: command 0 (receive)); "
                        "rank 0 ends without it"));
}

TEST_F(ProgramStagesTest, TurnsOfTheCallerAreInAllTables) {
  twoStages(
      [](SequenceWriter &steps) {
        steps.loop(0, [](SequenceWriter &body) { body.call("forward0"); });
      },
      [](SequenceWriter &steps) { steps.call("forward1"); });
  EXPECT_THAT(result().message(),
              HasSubstr("rank 2 expects 1x4 f32 from rank 0 (call 0 of "
                        "forward1 on rank 2: command 0 (receive)); rank 0 "
                        "ends, or comes to a loop that the caller counts, "
                        "without it"));
}

TEST_F(ProgramStagesTest, MessagesAreOfOneSize) {
  twoStages([](SequenceWriter &steps) { steps.call("forward0"); },
            [](SequenceWriter &steps) { steps.call("forward1"); });
  ProgramsT all = programs->finish();
  FunctionT &function = *all.targets[0]->tables[1]->functions[0];
  function.commands[0]->action.AsReceive()->cols = 2;
  function.commands[0]->operands[0]->row_bytes = 8;
  EXPECT_THAT(
      check(all).message(),
      HasSubstr("sequence train: rank 0 sends 1x4 f32 to rank 2 (call 0 "
                "of forward0 on rank 0: command 3 (send)), and rank 2 "
                "expects 1x2 f32 from rank 0 (call 0 of forward1"));
}

/// Of stages without buffers for messages, orders of calls end where both
/// stages have the same one.
TEST_F(ProgramStagesTest, WhatIsAcceptedEnds) {
  std::mt19937 random(7);
  for (int i = 0; i != 400; ++i) {
    // True: a forward. Ranks of a stage send and receive, one after the other.
    std::vector<bool> orders[2];
    for (std::vector<bool> &order : orders)
      for (int n = 0; n != 6; ++n)
        order.push_back(random() % 2);
    programs.emplace(Mesh({{"pipe", 2}, {"row", 2}}));
    auto write = [&](int stage) {
      return [&orders, stage](SequenceWriter &steps) {
        for (bool isForward : orders[stage])
          steps.call((isForward ? "forward" : "backward") +
                     std::to_string(stage));
      };
    };
    twoStages(write(0), write(1));
    // With rendezvous the two must do the same, one after the other.
    const bool ends = orders[0] == orders[1];
    EXPECT_EQ(result().ok(), ends) << result().message();
    if (i % 2)
      continue;
    programs.emplace(Mesh({{"pipe", 2}, {"row", 2}}));
    orders[1] = orders[0];
    twoStages(write(0), write(1));
    EXPECT_TRUE(result().ok()) << result().message();
  }
}

/// Four stages, of which the two in the middle are alike.
class ProgramLongPipeTest : public ProgramStagesTest {
protected:
  ProgramLongPipeTest() : ProgramStagesTest(4) {}

  void stages(int stage, int last = 3) {
    programs->beginTable(2);
    const int next = stage == last ? -1 : stage + 1;
    function("forward", stage - 1, next);
    function("backward", next, stage - 1);
  }
};

TEST_F(ProgramLongPipeTest, RunsForwardsAndThenBackwards) {
  for (int stage = 0; stage != 4; ++stage) {
    stages(stage);
    programs->sequence("train", {{"forward", 8}, {"backward", 8}});
  }
  EXPECT_TRUE(result().ok()) << result().message();
}

/// 128 ranks of 200 calls each; a library must open within a second.
TEST_F(ProgramLongPipeTest, ManyRanksAreFollowedInTime) {
  programs.emplace(Mesh({{"pipe", 64}, {"row", 2}}));
  for (int stage = 0; stage != 64; ++stage) {
    stages(stage, 63);
    programs->sequence("train", {{"forward", 100}, {"backward", 100}});
  }
  const std::clock_t begin = std::clock();
  const Status status = result();
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 1);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(ProgramLongPipeTest, OneForwardOneBackwardStartsThemTogether) {
  for (int stage = 0; stage != 4; ++stage) {
    stages(stage);
    // After as many forwards as there are stages behind.
    const auto ahead = static_cast<uint32_t>(3 - stage);
    SequenceWriter steps = programs->sequence("train");
    for (uint32_t i = 0; i != ahead; ++i)
      steps.call("forward");
    steps.loop(8 - ahead, [](SequenceWriter &body) {
      body.call("forward").call("backward");
    });
    for (uint32_t i = 0; i != ahead; ++i)
      steps.call("backward");
  }
  // A send that ends when it is received stops this order.
  EXPECT_THAT(result().message(), HasSubstr("ranks wait for each other"));
}

} // namespace
