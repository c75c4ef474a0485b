//===- BoundProgramTest.cpp - A function's commands on one rank -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgramFixture.h"

#include <gmock/gmock.h>

using namespace optrt;
using namespace optimus_support::program;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

int64_t integerAt(void *cell) { return *static_cast<int64_t *>(cell); }

TEST_F(BoundProgramTest, AddressesAreThoseOfTheRank) {
  View mine = f.at(memory, {.terms = {Term(8, 0), Term(2, 1)}}, 2);
  View other = f.at(memory, 40, 2);
  View chosen = f.choose(0, 1, mine, other);
  f.launch("three", {},
           {update(mine), update(chosen), read(f.choose(1, 2, ints, chosen))});
  for (int rank = 0; rank != 6; ++rank) {
    given.clear();
    ASSERT_TRUE(run(rank).ok());
    const int row = rank / 3, col = rank % 3;
    float *here = arena + 8 * row + 2 * col;
    float *second = row == 1 ? here : arena + 40;
    void *third = col == 2 ? static_cast<void *>(numbers) : second;
    ASSERT_EQ(given.size(), 1u);
    EXPECT_THAT(given[0], ElementsAre(here, second, third)) << rank;
  }
}

TEST_F(BoundProgramTest, ScalarsAreThoseOfTheRank) {
  f.launch("three", {}, {},
           {f.integer({.constant = 5, .terms = {Term(-3, 0), Term(2, 1)}}),
            f.integer({.terms = {Term(4, 1)}, .least = 1, .most = 6}),
            f.real(0.25f)});
  const int64_t clamped[] = {1, 4, 6};
  for (int rank = 0; rank != 6; ++rank) {
    given.clear();
    auto program = bind(rank);
    ASSERT_TRUE(program.ok() && program->run(*context).ok());
    ASSERT_EQ(given.size(), 1u);
    EXPECT_EQ(integerAt(given[0][0]), 5 - 3 * (rank / 3) + 2 * (rank % 3));
    EXPECT_EQ(integerAt(given[0][1]), clamped[rank % 3]);
    EXPECT_EQ(*static_cast<float *>(given[0][2]), 0.25f);
  }
}

TEST_F(BoundProgramTest, ATableOfItsOwnIsTheRanks) {
  ProgramWriter several(mesh);
  for (int64_t ranks : {4, 2}) {
    several.beginTable(ranks);
    several.function("f").launch("none", {.extent = ranks}, {});
  }
  all = several.finish();
  isFinished = true;
  for (int rank = 0; rank != 6; ++rank) {
    ASSERT_TRUE(run(rank).ok());
    EXPECT_THAT(device->calls, ElementsAre(rank < 4 ? "none [0, 4) on 0"
                                                    : "none [0, 2) on 0"));
  }
}

TEST_F(BoundProgramTest, AFailureEndsTheRun) {
  f.from("h.0.attn", "gpt2.py:7");
  f.launch("none", {}, {});
  GemmT gemm;
  gemm.m = gemm.n = gemm.k = 2;
  f.gemm(gemm, {.a = memory, .b = memory, .c = f.at(memory, 8, 4)});
  f.launch("none", {}, {});
  auto program = bind(4);
  ASSERT_TRUE(program.ok());
  device->failsAt = "gemm";
  Status status = program->run(*context);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_EQ(status.message(), "rank 4, h.0.attn (gemm, gpt2.py:7): broken");
  EXPECT_THAT(device->calls,
              ElementsAre("none [0, 1) on 0", "gemm 2x2x2 on 0"));
  // Of what a machine lacks, the user is told as such.
  device->failure = unavailable("no memory");
  EXPECT_EQ(program->run(*context).code(), StatusCode::Unavailable);
}

TEST_F(BoundProgramTest, CommandsAreRecordedTheSecondTime) {
  f.launch("none", {}, {});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  device->records = true;
  for (int call = 0; call != 3; ++call)
    ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(device->calls,
              ElementsAre("none [0, 1) on 0", "begin recording on 0",
                          "none [0, 1) on 0", "end recording on 0",
                          "replay 7 on 0", "replay 7 on 0"));
}

TEST_F(BoundProgramTest, EagerCommandsAreWaitedForAndNotRecorded) {
  f.fill(memory);
  f.from("h.0.attn", "gpt2.py:7");
  f.launch("none", {}, {});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  device->records = true;
  context->isEager = true;
  for (int call = 0; call != 3; ++call) {
    device->calls.clear();
    ASSERT_TRUE(program->run(*context).ok());
    EXPECT_THAT(device->calls, ElementsAre("zeros 1x64 on 0", "call on 0",
                                           "none [0, 1) on 0", "call on 0"));
  }
  // What a queue says of a command is said with its name.
  device->failsAt = "call";
  device->calls.clear();
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, command 0 (fill): broken");
  EXPECT_EQ(device->calls.size(), 2u);
}

TEST_F(BoundProgramTest, ARecordingThatFailsIsOver) {
  f.launch("none", {}, {});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  device->records = true;
  ASSERT_TRUE(program->run(*context).ok());
  device->failsAt = "none";
  EXPECT_THAT(program->run(*context).message(), HasSubstr("broken"));
  EXPECT_EQ(device->calls.back(), "end recording on 0");
  device->calls.clear();
  EXPECT_FALSE(program->run(*context).ok());
  EXPECT_EQ(device->calls.front(), "begin recording on 0");
}

/// Launches are given the addresses of their scalars.
TEST_F(BoundProgramTest, ProgramsCanBeMoved) {
  static_assert(!std::is_copy_constructible_v<BoundProgram>);
  f.launch("one", {}, {}, {f.integer({.constant = 7})});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  BoundProgram moved = std::move(program).value();
  BoundProgram here = std::move(moved);
  ASSERT_TRUE(here.run(*context).ok());
  EXPECT_EQ(integerAt(given[0][0]), 7);
}

TEST_F(BoundProgramTest, PacksBecomeDescriptors) {
  View packed = f.at(memory, 32, 24);
  PackMatrixT pack;
  pack.rows = 5;
  pack.cols = 4;
  pack.ld = 6;
  pack.trans = true;
  f.pack(pack, memory, packed);
  GemmT gemm;
  gemm.m = 2;
  gemm.n = 4;
  gemm.k = 5;
  gemm.packed_b = true;
  f.gemm(gemm, {.a = memory, .b = packed, .c = f.at(memory, 56, 8)});
  ASSERT_TRUE(run(0).ok());
  EXPECT_THAT(device->calls,
              ElementsAre("pack 5x4 of ld 6 transposed into 24 on 0",
                          "gemm 2x4x5 packed on 0"));
}

TEST_F(BoundProgramTest, QueuesWaitForOneAnother) {
  f.fill(memory);
  f.wait(f.collective(CollectiveKind::AllReduce, {1}, memory, memory));
  f.launch("none", {}, {});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  EXPECT_THAT(device->queues, ElementsAre("compute", "axis 1"));
  // The others of the axis are not there, so that nothing is moved.
  device->failsAt = "call";
  EXPECT_FALSE(program->run(*context).ok());
  EXPECT_THAT(device->calls,
              ElementsAre("zeros 1x64 on 0", "record on 0", "await 1 on 1",
                          "call on 1", "record on 1"));
}

class Observer final : public CommandObserver {
public:
  void begin(const BoundProgram &program, Site site) override {
    seen.push_back("begin " + program.describe(site.number));
  }
  void end(const BoundProgram &program, Site site) override {
    seen.push_back("end " + program.describe(site.number));
  }
  std::vector<std::string> seen;
};

TEST_F(BoundProgramTest, LateFailuresAreOfWhatTheHostHasNotWaitedFor) {
  f.from("wte", "gpt2.py:1");
  f.fill(f.at(memory, 0, 16)); // which the collective waits for
  f.from("attn", "gpt2.py:2");
  const uint32_t start = f.collective(CollectiveKind::AllReduce, {1},
                                      f.at(memory, 0, 8), f.at(memory, 8, 8));
  f.from("mlp", "gpt2.py:3");
  f.fill(f.at(memory, 16, 8));
  f.from("attn", "gpt2.py:4");
  f.wait(start);
  f.from("loss", "gpt2.py:5");
  f.copy(f.at(memory, 8, 8), f.at(memory, 24, 8));
  auto program = bind(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  device->skipsHostCode = true;
  device->advice = "run again";
  device->failure = internal("an illegal address");
  device->failsAt = "zeros 1x8";
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, f: an illegal address; the command that met it is one of "
            "2, from attn (all_reduce, gpt2.py:2) to mlp (fill, gpt2.py:3); "
            "run again");
  device->failsAt = "copy";
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, f: an illegal address; the command that met it is one of "
            "2, from attn (wait, gpt2.py:4) to loss (copy, gpt2.py:5); run "
            "again");
  // The order of queues is no command: what it meets is of those before.
  device->failsAt = "await";
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, f: an illegal address; the command that met it is wte "
            "(fill, gpt2.py:1); run again");
  device->failsAt = "copy";
  // Where the device tells at once, it is the command.
  device->advice.clear();
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, loss (copy, gpt2.py:5): an illegal address");
}

TEST_F(BoundProgramTest, AllOfARecordingMayHaveFailed) {
  f.fill(memory);
  f.fill(memory);
  auto program = bind(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  device->records = true;
  ASSERT_TRUE(program->run(*context).ok());
  device->failsAt = "replay";
  device->failure = unavailable("out of memory");
  EXPECT_EQ(program->run(*context).message(), "rank 0, f: out of memory");
  device->advice = "run again";
  EXPECT_EQ(program->run(*context).message(),
            "rank 0, f: out of memory; the command that met it is one of 2, "
            "from command 0 (fill) to command 1 (fill); run again");
}

TEST_F(BoundProgramTest, AnObserverSeesEveryCommand) {
  f.fill(memory);
  f.from("h.0");
  f.launch("none", {}, {});
  f.copy(f.at(memory, 0, 8), f.at(memory, 8, 8));
  f.launch("none", {}, {});
  auto program = bind(0);
  ASSERT_TRUE(program.ok());
  Observer observer;
  context->observer = &observer;
  device->failsAt = "copy";
  EXPECT_FALSE(program->run(*context).ok());
  EXPECT_THAT(observer.seen,
              ElementsAre("begin command 0 (fill)", "end command 0 (fill)",
                          "begin h.0 (none)", "end h.0 (none)",
                          "begin h.0 (copy)", "end h.0 (copy)"));
}

} // namespace
