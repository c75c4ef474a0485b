//===- ProgramMessagesTest.cpp - Tables whose ranks send to each other ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgramFixture.h"

#include <gmock/gmock.h>

#include <array>
#include <thread>

using namespace optrt;
using namespace optimus_support::program;
using testing::ElementsAre;

namespace {

constexpr int kRanks = 6;

/// All ranks of row:2,col:3, on threads.
class ProgramMessagesTest : public BoundProgramTest {
protected:
  /// With the other rank of `row`, from or to 4 numbers of the arena.
  template <typename T>
  uint32_t message(int64_t at, uint32_t group) {
    T one;
    one.axis = 0;
    one.peer = std::make_unique<IntegerT>();
    one.peer->constant = 1;
    one.peer->terms = {Term(-1, 0)};
    one.rows = 2;
    one.cols = one.ld = 2;
    one.group = group;
    ActionUnion action;
    action.Set(std::move(one));
    return f.add(std::move(action), {f.at(memory, at, 4)});
  }

  /// What each rank has afterwards; before, number i of rank r is 100 r + i.
  void runAll() {
    all = programs.finish();
    const Status status = check(all);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<std::thread> threads;
    for (int rank = 0; rank != kRanks; ++rank)
      threads.emplace_back([this, rank] {
        std::array<float, 64> &own = numbers[rank];
        for (int i = 0; i != 64; ++i)
          own[i] = float(100 * rank + i);
        Rank here(mesh, world, rank, std::make_unique<RecordingDevice>());
        char *const arenas[] = {reinterpret_cast<char *>(own.data())};
        void *const arguments[] = {BoundProgramTest::numbers};
        auto program = BoundProgram::bind(*all.targets.front(), kernels, "f",
                                          mesh, rank, *here.device, arenas,
                                          arguments, Placement::Planned);
        outcomes[rank] = program.status();
        if (program.ok())
          outcomes[rank] = program->run(here);
        if (outcomes[rank].ok())
          outcomes[rank] = here.endCall();
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &one : outcomes)
      EXPECT_TRUE(one.ok()) << one.message();
  }
  auto at(int rank, int first, int count) const {
    const float *begin = &numbers[rank][first];
    return std::vector<float>(begin, begin + count);
  }

  std::array<std::array<float, 64>, kRanks> numbers;
  std::array<Status, kRanks> outcomes;
};

TEST_F(ProgramMessagesTest, RanksSwapBeforeTheyWait) {
  const uint32_t sent = message<SendT>(0, 1),
                 received = message<ReceiveT>(8, 1);
  f.wait(received);
  f.wait(sent);
  // And on, with what has come.
  const uint32_t back = message<SendT>(8, 2), home = message<ReceiveT>(16, 2);
  f.wait(back);
  f.wait(home);
  runAll();
  for (int rank = 0; rank != kRanks; ++rank) {
    const float first = float(100 * ((rank + 3) % kRanks)),
                own = float(100 * rank);
    EXPECT_THAT(at(rank, 8, 4),
                ElementsAre(first, first + 1, first + 2, first + 3));
    EXPECT_THAT(at(rank, 16, 4), ElementsAre(own, own + 1, own + 2, own + 3));
  }
}

TEST_F(ProgramMessagesTest, EachGetsItsBlockOfAnExchange) {
  CollectiveT exchange;
  exchange.kind = CollectiveKind::AllToAll;
  exchange.axes = {1};
  exchange.outer = 1;
  exchange.inner = 2;
  exchange.src_ld = exchange.dst_ld = 6;
  // What is moved may be anything.
  View from = f.at(memory, 0, 6), to = f.at(memory, 8, 6);
  from.type = to.type = program::ElementType::I32;
  f.wait(f.collective(std::move(exchange), from, to));
  runAll();
  for (int rank = 0; rank != kRanks; ++rank) {
    const int row = rank / 3, block = 2 * (rank % 3);
    auto sent = [&](int col, int i) {
      return float(100 * (3 * row + col) + block + i);
    };
    EXPECT_THAT(at(rank, 8, 6),
                ElementsAre(sent(0, 0), sent(0, 1), sent(1, 0), sent(1, 1),
                            sent(2, 0), sent(2, 1)));
  }
}

} // namespace
