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

} // namespace
