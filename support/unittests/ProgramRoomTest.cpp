//===- ProgramRoomTest.cpp - Communication that nothing emits yet ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The features with room in docs/programs.md: each is written, and is refused
// where it is wrong.
//
//===----------------------------------------------------------------------===//

#include "ProgramRoom.h"

using namespace program_room;

namespace {

//===----------------------------------------------------------------------===//
// Sends and receives
//===----------------------------------------------------------------------===//

class SendAndReceive : public ProgramRoom {
protected:
  /// Rows exchange 4 numbers: the peer is 1 - row.
  void exchange(const IntegerT &to, const IntegerT &from) {
    SendT one = peer<SendT>(0, to);
    ReceiveT other = peer<ReceiveT>(0, from);
    one.group = other.group = 1;
    uint32_t send = f.add(unite(std::move(one)), {part(0, 4)});
    uint32_t receive = f.add(unite(std::move(other)), {part(8, 4)});
    f.wait(send);
    f.wait(receive);
  }
  IntegerT other = integer(1, {Term(-1, 0)});
};

TEST_F(SendAndReceive, AreOfTwoRanks) {
  exchange(other, other);
  accept("1 row: receive");
}

TEST_F(SendAndReceive, HavePeersOnTheirAxis) {
  exchange(integer(0, {Term(1, 0), Term(1, 1)}), other);
  refuse("command 0 (send): has a peer outside its mesh axis");
}

TEST_F(SendAndReceive, AreOnTheQueueOfTheirAxis) {
  exchange(other, other);
  f.table().queues[0]->axes = {1};
  refuse("command 0 (send): is not on the queue of its mesh axis");
}

TEST_F(SendAndReceive, ComeInPairs) {
  f.wait(f.add(unite(peer<SendT>(0, other)), {part(0, 4)}));
  refuse("function f: ranks wait for each other: rank 0 sends 1x4 f32 to rank "
         "3 (call 0 of f on rank 0: command 0 (send)); meanwhile rank 3 sends "
         "1x4 f32 to rank 0 (call 0 of f on rank 3: command 0 (send)); "
         "meanwhile rank 0 waits");
}

TEST_F(SendAndReceive, StartTogetherWhereBothSend) {
  exchange(other, other);
  f.command(0).action.AsSend()->group = 0;
  f.command(1).action.AsReceive()->group = 0;
  refuse("ranks wait for each other: rank 0 sends 1x4 f32 to rank 3");
}

TEST_F(SendAndReceive, AreOfOneSize) {
  exchange(other, other);
  f.command(1).action.AsReceive()->cols = 3;
  f.command(1).operands[0]->row_bytes = 12;
  refuse("rank 0 expects 1x3 f32 from rank 3 (call 0 of f on rank 0: command 1 "
         "(receive)), and rank 3 sends 1x4 f32 to rank 0 (call 0 of f on rank "
         "3: command 0 (send))");
}

TEST_F(SendAndReceive, NobodyWaitsForWhatIsNotSent) {
  f.wait(f.add(unite(peer<ReceiveT>(0, other)), {part(0, 4)}));
  refuse("rank 0 expects 1x4 f32 from rank 3 (call 0 of f on rank 0: command 0 "
         "(receive)); meanwhile rank 3 expects");
}

TEST_F(SendAndReceive, AreNotWithoutEnd) {
  ProgramWriter many{Mesh({{"row", 1 << 16}})};
  FunctionWriter one = many.function("f");
  View memory = one.arena(ElementType::F32, 4);
  for (int i = 0; i != 300; ++i)
    one.wait(one.add(unite(peer<SendT>(0, integer(0))), {memory}));
  EXPECT_THAT(check(many.finish()).message(),
              HasSubstr("its ranks start and wait 39321600 times together; "
                        "expected at most 16777216"));
}

/// A pipeline: each rank has its own table, and the last sends nothing.
TEST_F(SendAndReceive, FollowTables) {
  ProgramWriter stages{Mesh({{"stage", 2}})};
  for (int stage : {0, 1}) {
    stages.beginTable(1);
    FunctionWriter one = stages.function("f");
    View memory = one.arena(ElementType::F32, 4);
    one.wait(stage == 0
                 ? one.add(unite(peer<SendT>(0, integer(1))), {memory})
                 : one.add(unite(peer<ReceiveT>(0, integer(0))), {memory}));
  }
  ProgramsT both = stages.finish();
  Status status = check(both);
  EXPECT_TRUE(status.ok()) << status.message();
  both.targets[0]->tables[1]->functions[0]->commands.clear();
  EXPECT_THAT(
      check(both).message(),
      HasSubstr(
          "rank 0 sends 1x4 f32 to rank 1 (call 0 of f on rank 0: command "
          "0 (send)); rank 1 ends without it"));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

TEST_F(ProgramRoom, AllToAllMovesAPartForEachRank) {
  f.wait(f.collective(collective(CollectiveKind::AllToAll), part(0, 12),
                      part(16, 12)));
  accept(
      "0 col: all_to_all read src=arena0[0]:12f32 write dst=arena0[64]:12f32");
}

TEST_F(ProgramRoom, AllToAllIsNotInPlace) {
  f.wait(f.collective(collective(CollectiveKind::AllToAll), part(0, 12),
                      part(0, 12)));
  refuse("command 0 (all_to_all) writes memory of operand 1 that it touches as "
         "operand 0");
}

TEST_F(ProgramRoom, PartlyInPlaceIsRefused) {
  f.wait(f.collective(collective(CollectiveKind::AllReduce), part(0, 4),
                      part(2, 4)));
  refuse("writes memory of operand 1 that it touches as operand 0");
}

TEST_F(ProgramRoom, GroupsStartTogether) {
  CollectiveT first = collective(CollectiveKind::AllReduce);
  first.group = 7;
  CollectiveT second = first;
  uint32_t one = f.collective(std::move(first), part(0, 4), part(0, 4));
  uint32_t two = f.collective(std::move(second), part(8, 4), part(8, 4));
  f.wait(one);
  f.wait(two);
  accept();
}

TEST_F(ProgramRoom, GroupsAreNotTornApart) {
  uint32_t starts[3];
  for (int i : {0, 1, 2}) {
    CollectiveT member = collective(CollectiveKind::AllReduce);
    member.group = i == 1 ? 0 : 7;
    View at = part(8 * i, 4);
    starts[i] = f.collective(std::move(member), at, at);
  }
  for (uint32_t start : starts)
    f.wait(start);
  refuse("command 2 (all_reduce) is of group 7, which has ended on its queue");
}

TEST_F(ProgramRoom, MembersOfAGroupDoNotWaitForEachOther) {
  for (int i : {0, 1}) {
    CollectiveT member = collective(CollectiveKind::AllReduce);
    member.group = 7;
    f.wait(f.collective(std::move(member), part(8 * i, 4), part(8 * i, 4)));
  }
  refuse("command 2 (all_reduce) begins after command 0 (all_reduce) is done, "
         "with which it starts in group 7");
}

TEST_F(ProgramRoom, NarrowTensorsAreAdded) {
  View data = part(0, 4, ElementType::BF16);
  f.wait(f.collective(collective(CollectiveKind::AllReduce), data, data));
  accept();
}

TEST_F(ProgramRoom, IntegersTravel) {
  f.wait(f.collective(collective(CollectiveKind::Broadcast),
                      part(0, 4, ElementType::I32),
                      part(8, 4, ElementType::I32)));
  accept();
}

TEST_F(ProgramRoom, IntegersAreNotAdded) {
  View data = part(0, 4, ElementType::I32);
  f.wait(f.collective(collective(CollectiveKind::AllReduce), data, data));
  refuse("command 0 (collective): adds i32; expected f32, bf16 or f16");
}

TEST_F(ProgramRoom, CollectivesKeepTheType) {
  f.wait(f.collective(collective(CollectiveKind::AllReduce), part(0, 4),
                      part(8, 4, ElementType::BF16)));
  refuse("operand 1 is of bf16; expected f32, as operand 0 is");
}

//===----------------------------------------------------------------------===//
// Tokens that cross calls
//===----------------------------------------------------------------------===//

class Carried : public ProgramRoom {
protected:
  uint32_t start(View data, uint32_t number) {
    CollectiveT sum = collective(CollectiveKind::AllReduce);
    sum.carried = number;
    return f.collective(std::move(sum), data, data);
  }
  void waitIn(FunctionWriter function, uint32_t number) {
    function.waitCarried(number);
  }
  View gradient = f.argument(ElementType::F32, 4);
};

TEST_F(Carried, IsWaitedForByALaterCall) {
  start(gradient, 3);
  waitIn(programs.function("g"), 3);
  accept();
}

TEST_F(Carried, IsStartedBySomeCall) {
  start(gradient, 3);
  waitIn(programs.function("g"), 4);
  refuse("function g: command 0 waits for number 4, under which no call starts "
         "anything");
}

TEST_F(Carried, OutlivesTheArena) {
  start(part(0, 4), 3);
  waitIn(programs.function("g"), 3);
  refuse(
      "command 0 (all_reduce) is carried to a later call with memory that is "
      "not an argument's");
}

TEST_F(Carried, HasOneWait) {
  f.wait(start(gradient, 3));
  refuse("waits for command 0 (all_reduce), which a later call or another "
         "command waits for");
}

TEST_F(Carried, HasANumberOfItsOwn) {
  start(gradient, 3);
  start(f.argument(ElementType::F32, 4), 3);
  refuse(
      "command 1 (all_reduce) is carried under number 3, as an earlier one is");
}

TEST_F(Carried, IsNotWaitedForInItsCall) {
  start(gradient, 3);
  waitIn(f, 3);
  refuse("command 1 (wait) waits for number 3, under which an earlier command "
         "starts something");
}

TEST_F(Carried, IsUnderWayTillTheEndOfTheCall) {
  start(gradient, 3);
  f.fill(gradient);
  refuse("command 1 (fill) writes what command 0 (all_reduce) reads, and "
         "nothing orders the two");
}

//===----------------------------------------------------------------------===//
// Memories
//===----------------------------------------------------------------------===//

class Memories : public ProgramRoom {
protected:
  View file = f.arena(ElementType::F32, 16, MemorySpace::File);
};

TEST_F(Memories, AreReachedByCopies) {
  f.copy(part(0, 16), file);
  accept("arena1 of 64 bytes (file)");
}

TEST_F(Memories, AreReachedByNothingElse) {
  f.fill(file);
  refuse(
      "command 0 (fill): touches memory of the host or of a file, which only "
      "copies reach");
}

TEST_F(Memories, HaveArgumentsToo) {
  View given = f.argument(ElementType::F32, 16);
  f.table().arguments[1]->space = MemorySpace::Host;
  f.fill(given);
  refuse("command 0 (fill): touches memory of the host or of a file");
}

} // namespace
