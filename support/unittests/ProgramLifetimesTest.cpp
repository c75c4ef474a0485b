//===- ProgramLifetimesTest.cpp - When buffers of arenas are alive --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramLifetimes.h"

#include "ProgramTest.h"

#include "optimus-support/ProgramPrinter.h"

using namespace optimus_support;
using namespace optimus_support::program;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// An arena of 64 floats whose halves a function fills, copies and reduces:
///
///   0 fill first, 1 copy first to second, 2 all_reduce second in place,
///   3 fill first, 4 wait
class ProgramLifetimesTest : public ProgramTest {
protected:
  ProgramLifetimesTest() {
    f.fill(first);
    f.copy(first, second);
    const uint32_t sum =
        f.collective(CollectiveKind::AllReduce, {1}, second, second);
    f.fill(first);
    f.wait(sum);
  }

  FunctionWriter f = programs.function("f");
  View memory = f.arena(ElementType::F32, 64);
  View first = f.at(memory, 0, 32), second = f.at(memory, 32, 32);
};

TEST_F(ProgramLifetimesTest, BuffersThatHoldWhatIsTouchedAreFine) {
  f.buffer(first, 0, 1);
  f.buffer(second, 1, 4);
  f.buffer(first, 3, 3);
  Status status = check(programs.finish());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(ProgramLifetimesTest, WithoutBuffersArenasAreLeftAsTheyAre) {
  EXPECT_TRUE(check(programs.finish()).ok());
}

TEST_F(ProgramLifetimesTest, ABufferOfNoBytesMeetsNone) {
  f.buffer(first, 0, 3);
  f.buffer(second, 1, 4);
  f.buffer(f.at(memory, 40, 0), 0, 4);
  EXPECT_TRUE(check(programs.finish()).ok());
}

TEST_F(ProgramLifetimesTest, CommandsAreOfTheFunction) {
  f.buffer(first, 0, 5);
  refuse("buffer 0 is alive from command 0 to 5; expected commands of the "
         "function's 5, in order");
}

TEST_F(ProgramLifetimesTest, TheFirstCommandComesFirst) {
  f.buffer(first, 3, 2);
  refuse("buffer 0 is alive from command 3 to 2");
}

TEST_F(ProgramLifetimesTest, NamesAreTexts) {
  f.buffer(first, 0, 3).path = 7;
  refuse("buffer 0 has names that are not there");
}

TEST_F(ProgramLifetimesTest, BuffersThatAreAliveAtOnceAreApart) {
  f.buffer(first, 0, 1);
  f.buffer(f.at(memory, 31, 33), 1, 4);
  refuse("buffer 1 (bytes [124, 256) of arena 0, alive from command 1 to 4) "
         "overlaps buffer 0 (bytes [0, 128) of arena 0, alive from command 0 "
         "to 1), which is alive at the same time");
}

TEST_F(ProgramLifetimesTest, OneInsideAnotherIsFound) {
  f.buffer(memory, 0, 4);
  f.buffer(f.at(memory, 8, 8), 2, 3);
  refuse("buffer 1 (bytes [32, 64) of arena 0, alive from command 2 to 3) "
         "overlaps buffer 0");
}

TEST_F(ProgramLifetimesTest, OneAtTheSamePlaceIsFound) {
  f.buffer(first, 0, 3);
  f.buffer(f.at(memory, 0, 8), 0, 3);
  refuse("buffer 0 (bytes [0, 128) of arena 0, alive from command 0 to 3) "
         "overlaps buffer 1");
}

TEST_F(ProgramLifetimesTest, WhatIsTouchedIsAlive) {
  f.buffer(first, 0, 1);
  f.buffer(second, 1, 4);
  refuse("command 3 (fill) touches bytes [0, 128) of arena 0; expected them in "
         "one buffer that is alive at command 3");
}

TEST_F(ProgramLifetimesTest, ACollectivesBuffersLiveUntilItsWait) {
  f.buffer(first, 0, 3);
  f.buffer(second, 1, 3);
  refuse("command 2 (all_reduce) touches bytes [128, 256) of arena 0; expected "
         "them in one buffer that is alive at command 4");
}

TEST_F(ProgramLifetimesTest, WhatIsTouchedLiesInOneBuffer) {
  f.buffer(first, 0, 3);
  f.buffer(f.at(memory, 32, 16), 1, 4);
  f.buffer(f.at(memory, 48, 16), 1, 4);
  refuse("command 1 (copy) touches bytes [128, 256) of arena 0");
}

TEST_F(ProgramLifetimesTest, LiveBuffersAreFoundByTheirBytes) {
  f.buffer(first, 0, 1);
  f.buffer(second, 1, 4);
  f.buffer(first, 3, 3);
  LiveBuffers alive(f.table());
  EXPECT_THAT(alive.begin(0), ElementsAre(0));
  EXPECT_EQ(alive.find(0, 64, 128), 0u);
  EXPECT_EQ(alive.find(0, 64, 129), std::nullopt);
  EXPECT_EQ(alive.find(0, 128, 132), std::nullopt);
  EXPECT_EQ(alive.find(1, 0, 4), std::nullopt);
  EXPECT_THAT(alive.end(0), ElementsAre());
  EXPECT_THAT(alive.begin(1), ElementsAre(1));
  EXPECT_EQ(alive.find(0, 128, 132), 1u);
  EXPECT_THAT(alive.end(1), ElementsAre(0));
  EXPECT_EQ(alive.find(0, 64, 128), std::nullopt);
  EXPECT_THAT(alive.begin(2), ElementsAre());
  EXPECT_THAT(alive.begin(3), ElementsAre(2));
  EXPECT_EQ(alive.find(0, 64, 128), 2u);
}

TEST_F(ProgramLifetimesTest, BuffersArePrintedBehindCommands) {
  BufferT &buffer = f.buffer(first, 0, 3, "activation");
  f.buffer(second, 1, 4);
  f.from("h.0.up", "toy.py:3");
  f.fill(first);
  buffer.path = f.command(5).path;
  buffer.source = f.command(5).source;
  buffer.values = {buffer.path, buffer.source, buffer.path};
  buffer.last = 5;
  const ProgramsT all = programs.finish();
  ASSERT_TRUE(check(all).ok());
  const TargetT &target = *findTarget(all, "cpu");
  const ProgramTableT &table = tableOf(target, 0);
  EXPECT_THAT(
      print(all, target, table, *findFunction(table, "f")),
      HasSubstr("arena0[0]: 128 bytes alive from 0 to 5 activation = h.0.up, "
                "toy.py:3, h.0.up of h.0.up (toy.py:3)\n"
                "arena0[128]: 128 bytes alive from 1 to 4\n"));
}

} // namespace
