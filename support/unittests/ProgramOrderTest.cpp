//===- ProgramOrderTest.cpp - Pieces of memory, and who touched them ------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A collective on a queue of its own is after what it names alone, so each test
// takes its edges away and gives it one.
//
//===----------------------------------------------------------------------===//

#include "ProgramRoom.h"

#include "optimus-support/ProgramOrder.h"
#include "optimus-support/ProgramRegions.h"

#include <optional>
#include <random>
#include <set>

using namespace program_room;

namespace {

class Pieces : public ProgramRoom {
protected:
  /// Reduces in place, after one command or none.
  uint32_t reduce(int64_t offset, std::vector<uint32_t> after) {
    View at = part(offset, 4);
    uint32_t start =
        f.collective(collective(CollectiveKind::AllReduce), at, at);
    f.command(start).after = std::move(after);
    return start;
  }
};

TEST_F(Pieces, AreOneAgainWhereAllIsWritten) {
  f.fill(part(0, 6));
  f.fill(part(6, 2));
  uint32_t whole = f.fill(part(0, 16));
  f.wait(reduce(4, {whole}));
  accept();
}

TEST_F(Pieces, KnowTheLastWriterOfAll) {
  f.fill(part(0, 6));
  uint32_t small = f.fill(part(6, 2));
  f.fill(part(0, 16));
  f.wait(reduce(4, {small}));
  refuse("command 3 (all_reduce) reads what command 2 (fill) writes, and "
         "nothing orders the two");
}

TEST_F(Pieces, KeepWhatOneOfThemIsTouchedBy) {
  uint32_t first = f.fill(part(0, 16));
  uint32_t start = reduce(4, {first});
  f.fill(part(8, 8));
  f.fill(part(0, 4));
  f.wait(start);
  accept();
}

TEST_F(Pieces, AreNotWrittenWholeWhileOneIsUnderWay) {
  uint32_t first = f.fill(part(0, 16));
  uint32_t start = reduce(4, {first});
  f.fill(part(0, 16));
  f.wait(start);
  refuse("command 2 (fill) writes what command 1 (all_reduce) reads, and "
         "nothing orders the two");
}

/// Of what nothing runs, the rest is checked all the same.
TEST_F(Pieces, MayLackAnOrderWhereNothingRuns) {
  f.fill(part(0, 16));
  f.wait(reduce(4, {}));
  const ProgramsT finished = programs.finish();
  EXPECT_THAT(check(finished).message(),
              testing::HasSubstr("nothing orders the two"));
  EXPECT_TRUE(check(finished, Checks::ButOrder).ok());
}

TEST_F(Pieces, NeedTheirWaitsWhereNothingRuns) {
  reduce(4, {});
  EXPECT_THAT(check(programs.finish(), Checks::ButOrder).message(),
              testing::HasSubstr("nothing waits for"));
}

//===----------------------------------------------------------------------===//
// What the check costs
//===----------------------------------------------------------------------===//

class Order : public ProgramTest {
protected:
  /// Begins another function.
  void begin() {
    f.emplace(programs.function("f" + std::to_string(numFunctions++)));
    arena = f->arena(ElementType::F32, 1 << 20);
  }
  View part(int64_t offset, int64_t elements) {
    return f->at(arena, offset, elements);
  }
  Status checkOrder(int64_t *looks = nullptr) {
    return program::checkOrder(TargetT(), ProgramTableT(), f->table(), mesh,
                               Checks::All, looks);
  }
  /// An all-reduce in place of columns of a matrix of 8 rows.
  uint32_t reduceColumns(int64_t matrix, int64_t begin, int64_t columns,
                         int64_t ld) {
    CollectiveT reduce;
    reduce.kind = CollectiveKind::AllReduce;
    reduce.axes = {1};
    reduce.outer = 8;
    reduce.inner = columns;
    reduce.src_ld = reduce.dst_ld = ld;
    const View at = part(matrix + begin, 7 * ld + columns);
    return f->collective(reduce, at, at);
  }

  /// A matrix after the other, never where the last one was: filled, reduced in
  /// so many panels of columns and read whole.
  int64_t looksAtMatrices(int count, int64_t panels) {
    begin();
    for (int i = 0; i != count; ++i) {
      const int64_t ld = 4 * panels, matrix = i * 37 % 1001 * 8;
      f->fill(part(matrix, 8 * ld));
      std::vector<uint32_t> started;
      for (int64_t panel = 0; panel != panels; ++panel)
        started.push_back(reduceColumns(matrix, 4 * panel, 4, ld));
      for (uint32_t start : started)
        f->wait(start);
      f->copy(part(matrix, 8 * ld), part(1 << 19, 8 * ld));
    }
    int64_t looks = 0;
    Status status = checkOrder(&looks);
    EXPECT_TRUE(status.ok()) << status.message();
    return looks;
  }

  const Mesh mesh{{{"row", 2}, {"col", 3}}};
  std::optional<FunctionWriter> f;
  View arena;
  int numFunctions = 0;
};

TEST_F(Order, CostsAsMuchForEachCommand) {
  const int64_t few = looksAtMatrices(200, 8);
  EXPECT_LE(double(looksAtMatrices(400, 8)), 2.3 * double(few));
  // A panel is compared with the others of its matrix.
  EXPECT_LE(double(looksAtMatrices(200, 32)), 4.4 * 4 * double(few));
}

//===----------------------------------------------------------------------===//
// What it finds
//===----------------------------------------------------------------------===//

/// It is checked on another thread while a later function is refused.
TEST_F(Order, OfAnEarlierFunctionIsSaidFirst) {
  for (bool isOrdered : {true, false}) {
    begin();
    for (int i = 0; i != 10'000; ++i)
      f->fill(part(0, 64));
    const uint32_t start = reduceColumns(0, 0, 8, 8);
    if (!isOrdered)
      f->command(start).after.clear();
    f->wait(start);
  }
  begin();
  const uint32_t wrong = f->fill(part(0, 4));
  f->command(wrong).after = {wrong};
  refuse("function f1: command 10000 (all_reduce) reads what command 9999 "
         "(fill) writes, and nothing orders the two");
}

/// Whether some two commands are not in order, by comparing all pairs.
bool lacksOrder(const FunctionT &function, const Mesh &mesh) {
  const auto &commands = function.commands;
  std::vector<std::set<uint32_t>> done(commands.size());
  std::vector<uint32_t> end(commands.size()),
      last(function.queues.size(), kNone);
  for (uint32_t i = 0; i != commands.size(); ++i) {
    end[i] = i;
    if (const WaitT *wait = commands[i]->action.AsWait())
      end[wait->command] = i;
  }
  for (uint32_t i = 0; i != commands.size(); ++i) {
    auto join = [&](uint32_t earlier) {
      done[i].insert(done[earlier].begin(), done[earlier].end());
    };
    std::vector<uint32_t> after = commands[i]->after;
    if (uint32_t &before = last[commands[i]->queue]; before != kNone) {
      join(before);
      if (!isAsynchronous(*commands[i]))
        after.push_back(before);
    }
    last[commands[i]->queue] = i;
    for (uint32_t earlier : after) {
      join(earlier);
      done[i].insert(earlier);
    }
    if (const WaitT *wait = commands[i]->action.AsWait())
      join(wait->command);
  }
  for (uint32_t i = 0; i != commands.size(); ++i)
    for (uint32_t j = i + 1; j != commands.size(); ++j)
      for (const Touch &a : touchesOf(function, *commands[i], mesh))
        for (const Touch &b : touchesOf(function, *commands[j], mesh))
          if ((a.writes || b.writes) && !done[j].contains(end[i]) &&
              a.region.mayOverlap(b.region))
            return true;
  return false;
}

TEST_F(Order, IsMissedWhereItIsAndNowhereElse) {
  std::mt19937 random(7);
  auto pick = [&](int64_t count) { return int64_t(random() % count); };
  int numRefused = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial != kTrials; ++trial) {
    begin();
    std::set<uint32_t> underWay;
    auto waitForOne = [&] {
      auto one = std::next(underWay.begin(), pick(int64_t(underWay.size())));
      f->wait(*one);
      underWay.erase(one);
    };
    for (int i = 0; i != 20; ++i) {
      const uint32_t number = uint32_t(f->table().commands.size());
      const int64_t at = pick(400), size = 1 + pick(60);
      switch (pick(4)) {
      case 0:
        f->fill(part(at, size));
        break;
      case 1:
        f->copy(part(at, size), part(1000 + pick(40), size));
        break;
      case 2: {
        const uint32_t start =
            pick(2)
                ? reduceColumns(8 * pick(40), pick(5), 3, 8)
                : f->collective(CollectiveKind::AllReduce, {uint32_t(pick(2))},
                                part(at, size), part(at, size));
        // Most are after all that was computed, some after one command.
        if (pick(8) == 0)
          f->command(start).after = {uint32_t(pick(number + 1) % (start + 1))};
        std::erase(f->command(start).after, start);
        underWay.insert(start);
        break;
      }
      default:
        if (!underWay.empty())
          waitForOne();
      }
    }
    while (!underWay.empty())
      waitForOne();
    const bool refused = !checkOrder().ok();
    EXPECT_EQ(refused, lacksOrder(f->table(), mesh)) << "trial " << trial;
    numRefused += refused;
  }
  EXPECT_GT(numRefused, kTrials / 10);
  EXPECT_LT(numRefused, kTrials * 9 / 10);
}

} // namespace
