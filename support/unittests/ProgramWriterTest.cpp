//===- ProgramWriterTest.cpp - Tables of commands by hand -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

#include "optimus-support/ProgramPrinter.h"

using namespace optimus_support;
using namespace optimus_support::program;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// One function on a mesh row:2,col:3.
class ProgramWriterTest : public ProgramTest {
protected:
  /// What was written, after it was packed and read again.
  ProgramsT finish() {
    ProgramsT written = programs.finish();
    auto read = unpack(pack(written));
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? std::move(read).value() : ProgramsT();
  }

  FunctionWriter f = programs.function("f");
};

TEST_F(ProgramWriterTest, EveryCommandIsWrittenAsItIsRead) {
  View arena = f.arena(ElementType::F32, 4096);
  View x = f.argument(ElementType::F32, 6 * 8);
  View tokens = f.argument(ElementType::I32, 6);
  View bias = f.constant({1, 2, 3, 4});
  View y = f.at(arena, 0, 6 * 4), wide = f.at(arena, 1024, 3 * 6 * 4);
  f.from("h.0", "toy.py:3");
  f.fill(arena);
  GemmT gemm;
  gemm.m = 6;
  gemm.n = 4;
  gemm.k = 8;
  f.gemm(gemm, {.a = x, .b = f.at(arena, 2048, 32), .c = y, .bias = bias});
  f.launch("embed", {.extent = 6, .grain = 2}, {read(tokens), update(y)},
           {f.real(0.5f), f.integer({.constant = 1, .terms = {Term(2, 1)}})});
  f.wait(f.collective(CollectiveKind::AllGather, {1}, y, wide));
  f.from("");
  f.copy(y, f.at(x, 24, 24));
  AttentionShapeT shape;
  shape.batch = 1;
  shape.seq = 2;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = 4;
  View q = f.at(arena, 3000, 8), out = f.at(arena, 3008, 8),
       lse = f.at(arena, 3016, 2), dq = f.at(arena, 3024, 8),
       dk = f.at(arena, 3032, 8), dv = f.at(arena, 3040, 8);
  f.attention(shape, {.q = q, .k = q, .v = q, .out = out, .lse = lse});
  f.attentionGrad(shape, {.dout = y,
                          .q = q,
                          .k = q,
                          .v = q,
                          .out = out,
                          .lse = lse,
                          .dq = dq,
                          .dk = dk,
                          .dv = dv});
  ProgramsT read = finish();
  const TargetT &target = *findTarget(read, "cpu");
  const ProgramTableT &table = tableOf(target, 5);
  EXPECT_EQ(
      print(read, target, table, *findFunction(table, "f")),
      "function f: arena0 of 16384 bytes (device)\n"
      "0 compute: fill write dst=arena0[0]:4096f32 bytes=16384 h.0 "
      "(toy.py:3)\n"
      "1 compute: gemm 6x4x8 read a=arg0[0]:48f32 read b=arena0[8192]:32f32 "
      "write c=arena0[0]:24f32 read bias=constant0[0]:4f32 flops=384 bytes=432 "
      "h.0 (toy.py:3)\n"
      "2 compute: embed extent=6 grain=2 scalar=0.5 scalar=1+2*col read "
      "arg1[0]:6i32 update arena0[0]:24f32 bytes=216 h.0 (toy.py:3)\n"
      "3 col after 2: all_gather read src=arena0[0]:24f32 write "
      "dst=arena0[4096]:72f32 bytes=384 h.0 (toy.py:3)\n"
      "4 compute: wait for 3 h.0 (toy.py:3)\n"
      "5 compute: copy read src=arena0[0]:24f32 write dst=arg0[96]:24f32 "
      "bytes=192\n"
      "6 compute: attention batch=1 seq=2 heads=1 kv_heads=1 head_dim=4 read "
      "q=arena0[12000]:8f32 read k=arena0[12000]:8f32 read "
      "v=arena0[12000]:8f32 write out=arena0[12032]:8f32 write "
      "lse=arena0[12064]:2f32 flops=64 bytes=136\n"
      "7 compute: attention_grad batch=1 seq=2 heads=1 kv_heads=1 head_dim=4 "
      "read dout=arena0[0]:8f32 read q=arena0[12000]:8f32 read "
      "k=arena0[12000]:8f32 read v=arena0[12000]:8f32 read "
      "out=arena0[12032]:8f32 read lse=arena0[12064]:2f32 write "
      "dq=arena0[12096]:8f32 write dk=arena0[12128]:8f32 write "
      "dv=arena0[12160]:8f32 flops=160 bytes=264\n");
}

TEST_F(ProgramWriterTest, ArgumentsAreTouchedAsCommandsDo) {
  View read1 = f.argument(ElementType::F32, 4),
       written = f.argument(ElementType::F32, 4),
       both = f.argument(ElementType::F32, 4);
  f.argument(ElementType::F32, 4);
  f.copy(read1, written);
  f.copy(both, f.arena(ElementType::F32, 4));
  f.fill(f.choose(0, 1, both, written));
  ProgramsT read = finish();
  std::vector<Access> accesses;
  for (const auto &argument :
       findFunction(tableOf(*findTarget(read, "cpu"), 0), "f")->arguments)
    accesses.push_back(argument->access);
  EXPECT_THAT(accesses, ElementsAre(Access::Read, Access::Write, Access::Update,
                                    Access::Read));
}

TEST_F(ProgramWriterTest, ViewsOfViewsAddTheirOffsets) {
  View arena = f.arena(ElementType::F32, 64);
  View part = f.at(arena, {.constant = 4, .terms = {Term(8, 0)}}, 32);
  View piece = f.at(part, {.constant = 1, .terms = {Term(2, 1)}}, 2);
  f.fill(piece);
  ProgramsT read = finish();
  const TargetT &target = *findTarget(read, "cpu");
  const ProgramTableT &table = tableOf(target, 0);
  EXPECT_THAT(print(read, target, table, *findFunction(table, "f")),
              HasSubstr("dst=arena0[20+32*row+8*col]:2f32"));
}

TEST_F(ProgramWriterTest, TablesAreForTheirRanks) {
  ProgramWriter several(Mesh({{"row", 3}}));
  several.beginTable(2);
  several.function("f").fill(View());
  several.beginTable(1);
  several.function("f");
  ProgramsT all = several.finish();
  const TargetT &target = *findTarget(all, "cpu");
  EXPECT_EQ(&tableOf(target, 0), &tableOf(target, 1));
  EXPECT_EQ(tableOf(target, 1).functions[0]->commands.size(), 1u);
  EXPECT_EQ(tableOf(target, 2).functions[0]->commands.size(), 0u);
}

TEST_F(ProgramWriterTest, WhatIsWrongIsRefusedOnlyByTheCheck) {
  View arena = f.arena(ElementType::F32, 16);
  f.copy(arena, f.at(arena, 8, 16));
  refuse("touches bytes [32, 96) of a base of 64");
}

/// As those of kernels of a thousand operands.
TEST_F(ProgramWriterTest, NamesMayBeLong) {
  f.table().name = std::string(3000, 'f');
  EXPECT_TRUE(check(programs.finish()).ok());
}

TEST_F(ProgramWriterTest, NamesArePrintable) {
  f.table().name = "f\n";
  refuse("function 0: expected a name of printable characters");
  ProgramWriter others(Mesh({{"row", 1}}));
  FunctionWriter g = others.function("g");
  g.from("h.0\x1b", "a\nb.py:3");
  g.fill(g.arena(ElementType::F32, 1));
  ProgramsT all = others.finish();
  const TargetT &target = *all.targets[0];
  EXPECT_EQ(describe(target, *target.tables[0], g.table(), 0),
            "h.0? (fill, a?b.py:3)");
  const std::string shown(500, 'x');
  EXPECT_EQ(printable(shown + "x"), shown + "...");
  EXPECT_EQ(printable(shown), shown);
}

TEST_F(ProgramWriterTest, CollectivesComeAfterWhatWasComputed) {
  View arena = f.arena(ElementType::F32, 16);
  f.fill(arena);
  uint32_t start =
      f.collective(CollectiveKind::AllReduce, {0, 1}, arena, arena);
  f.wait(start);
  EXPECT_THAT(f.command(start).after, ElementsAre(0));
  f.command(start).after.clear();
  refuse("nothing orders the two");
}

} // namespace
