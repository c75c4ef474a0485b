//===- ProgramRoomTest.cpp - Commands that the compiler does not emit yet -===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What docs/programs.md says that there is room for: each is written, and is
// refused where it is wrong.
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramPrinter.h"
#include "optimus-support/ProgramWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// One function on a mesh row:2,col:3 with 64 floats and 8 numbers.
class ProgramRoom : public testing::Test {
protected:
  template <typename T> ActionUnion unite(T action) {
    ActionUnion result;
    result.Set(std::move(action));
    return result;
  }
  /// Puts a neighbour's index on an axis into a send or receive of 4 numbers.
  template <typename T> T peer(uint32_t axis, const IntegerT &peer) {
    T action;
    action.axis = axis;
    action.peer = std::make_unique<IntegerT>(peer);
    action.rows = 1;
    action.cols = 4;
    return action;
  }
  static IntegerT integer(int64_t constant, std::vector<Term> terms = {}) {
    IntegerT result;
    result.constant = constant;
    result.terms = std::move(terms);
    return result;
  }
  View part(int64_t offset, int64_t elements,
            ElementType type = ElementType::F32) {
    View view = f.at(arena, offset, elements);
    view.type = type;
    return view;
  }
  /// Of one row of 4, over the three ranks of a row.
  CollectiveT collective(CollectiveKind kind) {
    CollectiveT result;
    result.kind = kind;
    result.axes = {1};
    result.outer = 1;
    result.inner = 4;
    return result;
  }

  void accept(const std::string &printed = "") {
    all = programs.finish();
    auto read = unpack(pack(all));
    ASSERT_TRUE(read.ok()) << read.status().message();
    const TargetT &target = *read->targets.front();
    EXPECT_THAT(print(*read, target, *target.tables.front(),
                      *target.tables.front()->functions.front()),
                HasSubstr(printed));
  }
  void refuse(const std::string &message) {
    Status status = check(programs.finish());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  ProgramWriter programs{Mesh({{"row", 2}, {"col", 3}})};
  FunctionWriter f = programs.function("f");
  View arena = f.arena(ElementType::F32, 64);
  View numbers = f.argument(ElementType::I32, 8);
  ProgramsT all;
};

//===----------------------------------------------------------------------===//
// Sends and receives
//===----------------------------------------------------------------------===//

class SendAndReceive : public ProgramRoom {
protected:
  /// Rows exchange 4 numbers: the peer is 1 - row.
  void exchange(const IntegerT &to, const IntegerT &from) {
    uint32_t send = f.add(unite(peer<SendT>(0, to)), {part(0, 4)});
    uint32_t receive = f.add(unite(peer<ReceiveT>(0, from)), {part(8, 4)});
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
  refuse("function f: rank 0 sends 1x4 f32 to rank 3, which expects nothing");
}

TEST_F(SendAndReceive, AreOfOneSize) {
  exchange(other, other);
  f.command(1).action.AsReceive()->cols = 3;
  f.command(1).operands[0]->row_bytes = 12;
  refuse("rank 0 sends 1x4 f32 to rank 3, which expects 1x3 f32");
}

TEST_F(SendAndReceive, NobodyWaitsForWhatIsNotSent) {
  f.wait(f.add(unite(peer<ReceiveT>(0, other)), {part(0, 4)}));
  refuse("rank 3 expects 1x4 f32 from rank 0, which does not send it");
}

TEST_F(SendAndReceive, AreNotWithoutEnd) {
  ProgramWriter many{Mesh({{"row", 1 << 16}})};
  FunctionWriter one = many.function("f");
  View memory = one.arena(ElementType::F32, 4);
  for (int i = 0; i != 300; ++i)
    one.wait(one.add(unite(peer<SendT>(0, integer(0))), {memory}));
  EXPECT_THAT(check(many.finish()).message(),
              HasSubstr("its ranks send and receive more than 16777216 times"));
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
  EXPECT_THAT(check(both).message(),
              HasSubstr("rank 0 sends 1x4 f32 to rank 1, which expects nothing"));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

TEST_F(ProgramRoom, AllToAllMovesAPartForEachRank) {
  f.wait(f.collective(collective(CollectiveKind::AllToAll), part(0, 12),
                      part(16, 12)));
  accept("0 col: all_to_all read src=arena0[0]:12f32 write dst=arena0[64]:12f32");
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

TEST_F(ProgramRoom, WhatTravelsMayBeNarrowerThanSums) {
  CollectiveT sum = collective(CollectiveKind::AllReduce);
  sum.wire = ElementType::BF16;
  f.wait(f.collective(std::move(sum), part(0, 4), part(0, 4)));
  accept();
}

TEST_F(ProgramRoom, SumsAreNotNarrowerThanWhatTravels) {
  CollectiveT sum = collective(CollectiveKind::AllReduce);
  sum.accumulation = ElementType::BF16;
  f.wait(f.collective(std::move(sum), part(0, 4), part(0, 4)));
  refuse("command 0 (collective): adds f32 in bf16; expected a type of its kind "
         "with at least the bytes of f32");
}

TEST_F(ProgramRoom, NumbersDoNotTravelAsIntegers) {
  CollectiveT sum = collective(CollectiveKind::AllReduce);
  sum.wire = ElementType::I8;
  f.wait(f.collective(std::move(sum), part(0, 4), part(0, 4)));
  refuse("sends f32 as i8; expected a type of its kind or, scaled, i8");
}

TEST_F(ProgramRoom, CollectivesKeepTheType) {
  f.wait(f.collective(collective(CollectiveKind::AllReduce), part(0, 4),
                      part(8, 4, ElementType::BF16)));
  refuse("operand 1 is of bf16; expected f32, as operand 0 is");
}

class ErrorFeedback : public ProgramRoom {
protected:
  uint32_t start(View feedback) {
    CollectiveT sum = collective(CollectiveKind::ReduceScatter);
    sum.encoding = Encoding::ScaledInt8;
    sum.wire = ElementType::I8;
    sum.src_ld = 12;
    sum.dst_ld = 4;
    return f.add(unite(std::move(sum)), {part(0, 12), part(16, 4), feedback});
  }
};

TEST_F(ErrorFeedback, IsUpdatedByEncodings) {
  View feedback = f.argument(ElementType::F32, 12);
  f.wait(start(feedback));
  accept();
  EXPECT_EQ(all.targets[0]->tables[0]->functions[0]->arguments[1]->access,
            Access::Update);
}

TEST_F(ErrorFeedback, IsNotMissing) {
  f.wait(start(View()));
  refuse("command 0 (collective): operand error_feedback is missing");
}

TEST_F(ErrorFeedback, IsAsLargeAsWhatIsSent) {
  View feedback = f.argument(ElementType::F32, 12);
  uint32_t command = start(feedback);
  f.command(command).operands[2]->row_bytes = 16;
  f.wait(command);
  refuse("operand error_feedback: expected 1 rows of 48 bytes");
}

TEST_F(ErrorFeedback, IsOnlyOfEncodings) {
  CollectiveT sum = collective(CollectiveKind::AllReduce);
  sum.src_ld = sum.dst_ld = 4;
  f.wait(f.add(unite(std::move(sum)),
               {part(0, 4), part(8, 4), part(16, 4)}));
  refuse("operand error_feedback is there");
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
    WaitT wait;
    wait.carried = number;
    function.add(unite(std::move(wait)), {});
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
  refuse("command 0 (all_reduce) is carried to a later call with memory that is "
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
  refuse("command 1 (all_reduce) is carried under number 3, as an earlier one is");
}

TEST_F(Carried, IsUnderWayTillTheEndOfTheCall) {
  start(gradient, 3);
  f.fill(gradient);
  refuse("command 1 (fill) writes what command 0 (all_reduce) reads, and "
         "nothing orders the two");
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

class BatchedProduct : public ProgramRoom {
protected:
  /// Three products of 2x2 matrices, a's 4 elements apart, b the same in all.
  static GemmT three() {
    GemmT gemm;
    gemm.m = gemm.n = gemm.k = 2;
    gemm.batch = 3;
    gemm.batch_stride_a = gemm.batch_stride_c = 4;
    return gemm;
  }
};

TEST_F(BatchedProduct, TouchesAllMatrices) {
  f.gemm(three(), {.a = part(0, 12), .b = part(16, 4), .c = part(32, 12)});
  accept("read a=arena0[0]:12f32 read b=arena0[64]:4f32 write "
         "c=arena0[128]:12f32 flops=48");
}

TEST_F(BatchedProduct, EndsInItsArena) {
  GemmT gemm = three();
  gemm.batch_stride_c = 20;
  f.gemm(gemm, {.a = part(0, 12), .b = part(16, 4), .c = part(32, 12)});
  refuse("operand 2: touches bytes [128, 304) of a base of 256");
}

TEST_F(BatchedProduct, HasStridesThatAreNotNegative) {
  GemmT gemm = three();
  gemm.batch_stride_a = -4;
  f.gemm(gemm, {.a = part(8, 4), .b = part(16, 4), .c = part(32, 12)});
  refuse("has sizes or leading dimensions that are not positive, or do not fit");
}

class Workspace : public ProgramRoom {
protected:
  static GemmT product() {
    GemmT gemm;
    gemm.m = gemm.n = gemm.k = 2;
    return gemm;
  }
};

TEST_F(Workspace, IsOfAnySize) {
  f.gemm(product(), {.a = part(0, 4), .b = part(4, 4), .c = part(8, 4),
                     .workspace = part(16, 13)});
  accept("update workspace=arena0[64]:13f32");
}

TEST_F(Workspace, IsNothingElse) {
  f.gemm(product(), {.a = part(0, 4), .b = part(4, 4), .c = part(8, 4),
                     .workspace = part(11, 13)});
  refuse("command 0 (gemm) writes memory of operand 2 that it touches as operand "
         "5");
}

TEST_F(Workspace, OfALaunchIsItsLastBuffer) {
  f.launch("sort", {}, {read(part(0, 4)), write(part(4, 4)), update(part(2, 8))});
  f.command(0).action.AsLaunch()->has_workspace = true;
  refuse("command 0 (sort) writes memory of operand 1 that it touches as operand "
         "2");
}

TEST_F(Workspace, IsUpdated) {
  f.launch("sort", {}, {read(part(0, 4))});
  f.command(0).action.AsLaunch()->has_workspace = true;
  refuse("command 0 (launch): lacks workspace that it updates");
}

/// One query at a position that an argument says, against a cache of 4 keys.
class Decoding : public ProgramRoom {
protected:
  AttentionShapeT step(int64_t mostPosition, int64_t mostLength) {
    AttentionShapeT shape;
    shape.batch = shape.seq = 1;
    shape.heads = shape.kv_heads = 2;
    shape.head_dim = 2;
    shape.head_stride = 3;
    shape.q_ld = shape.kv_ld = 5;
    shape.key_capacity = 4;
    shape.causal = true;
    shape.query_offset =
        f.integer({.readings = {{.from = numbers, .most = mostPosition}}});
    shape.key_length = f.integer(
        {.constant = 1,
         .readings = {{.from = f.at(numbers, 1, 1), .most = mostLength - 1}}});
    return shape;
  }
  void attend(const AttentionShapeT &shape) {
    f.attention(shape, {.q = part(0, 5), .k = part(8, 20), .v = part(28, 20),
                        .out = part(48, 4), .lse = part(56, 2)});
  }
};

TEST_F(Decoding, HasPositionsLengthsAndHeadsApart) {
  attend(step(3, 4));
  accept("read q=arena0[0]:5f32 read k=arena0[32]:20f32");
}

TEST_F(Decoding, SeesNoKeysThatThereAreNot) {
  attend(step(3, 5));
  refuse("command 0 (attention): counts by scalar 1, which may be from 1 to 5; "
         "expected 0 to 4");
}

TEST_F(Decoding, HasPositionsFromZero) {
  AttentionShapeT shape = step(3, 4);
  f.table().scalars[shape.query_offset]->number.AsInteger()->constant = -1;
  attend(shape);
  refuse("counts by scalar 0, which may be from -1 to 2");
}

TEST_F(Decoding, HasHeadsThatDoNotOverlap) {
  AttentionShapeT shape = step(3, 4);
  shape.head_stride = 1;
  attend(shape);
  refuse("has sizes or leading dimensions that are not positive, or do not fit");
}

//===----------------------------------------------------------------------===//
// Numbers that are read when a command is executed
//===----------------------------------------------------------------------===//

class ReadWhenExecuted : public ProgramRoom {
protected:
  Lookup number(int64_t most) {
    return {.from = f.at(numbers, 2, 1), .least = 0, .most = most};
  }
};

TEST_F(ReadWhenExecuted, OffsetsScalarsAndExtentsAre) {
  View moving = f.at(arena, {.constant = 4, .readings = {number(60 - 4)}}, 4);
  uint32_t count = f.integer({.readings = {number(56)}, .most = 6});
  f.launch("put", {.extent = 6, .count = count}, {write(moving)}, {count});
  accept("arena0[16+4*arg0[8]]:4f32");
}

TEST_F(ReadWhenExecuted, OffsetsStayInsideForAllNumbers) {
  f.fill(f.at(arena, {.constant = 4, .readings = {number(57)}}, 4));
  refuse("operand 0: touches bytes [16, 260) of a base of 256");
}

TEST_F(ReadWhenExecuted, ExtentsStayInsideForAllNumbers) {
  CopyT copy;
  copy.rows = 4;
  copy.cols = 2;
  copy.count = f.integer({.readings = {number(5)}});
  f.copy(std::move(copy), part(0, 8), part(8, 8));
  refuse("counts by scalar 0, which may be from 0 to 5; expected 0 to 4");
}

TEST_F(ReadWhenExecuted, NumbersAreIntegersOfAnArgument) {
  View real = f.argument(ElementType::F32, 1);
  f.integer({.readings = {{.from = real, .most = 1}}});
  refuse("scalar 0: reads argument 1 of f32; expected i32 or i64");
}

TEST_F(ReadWhenExecuted, NumbersAreInTheirArgument) {
  f.integer({.readings = {{.from = f.at(numbers, 8, 1), .most = 1}}});
  refuse("scalar 0: reads at byte 32 of argument 0, which has 32");
}

TEST_F(ReadWhenExecuted, NumbersAreNotWrittenMeanwhile) {
  f.integer({.readings = {number(1)}});
  f.launch("count", {}, {update(numbers)});
  refuse("scalar 0: reads argument 0, which the function writes");
}

} // namespace
