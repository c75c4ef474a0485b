//===- ProgramSequenceTest.cpp - That ranks and calls fit together --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// Functions on a mesh row:2,col:2.
class ProgramSequenceTest : public ProgramTest {
protected:
  ProgramSequenceTest() : ProgramTest(Mesh({{"row", 2}, {"col", 2}})) {}

  /// A function that may wait for a start of an earlier call, and may start
  /// something for a later one: numbers, 0 for none.
  void function(const std::string &name, uint32_t waitsFor, uint32_t starts) {
    FunctionWriter f = programs.function(name);
    f.from(name + ".gather", name + ".py:7");
    View x = f.argument(ElementType::F32, 8),
         y = f.argument(ElementType::F32, 16);
    if (waitsFor) {
      WaitT wait;
      wait.carried = waitsFor;
      ActionUnion action;
      action.Set(std::move(wait));
      f.add(std::move(action), {});
    }
    if (starts) {
      CollectiveT gather;
      gather.kind = CollectiveKind::AllGather;
      gather.axes = {0};
      gather.outer = 1;
      gather.inner = 8;
      gather.carried = starts;
      f.collective(std::move(gather), x, y);
    }
  }

  void accept() {
    Status status = check(programs.finish());
    EXPECT_TRUE(status.ok()) << status.message();
  }
};

TEST_F(ProgramSequenceTest, WhatIsCarriedIsWaitedForLater) {
  function("first", 0, 1);
  function("next", 1, 1);
  function("last", 1, 0);
  programs.sequence("s", {{"first", 1}, {"next", 0}, {"last", 1}});
  programs.sequence("short", {{"first", 1}, {"last", 1}});
  programs.sequence(
      "twice",
      {{"first", 1}, {"next", 7}, {"last", 1}, {"first", 1}, {"last", 1}});
  accept();
}

TEST_F(ProgramSequenceTest, NothingStaysCarried) {
  function("first", 0, 3);
  programs.sequence("s", {{"first", 1}});
  refuse("sequence s: first.gather (all_gather, first.py:7), command 0 is "
         "carried under number 3, and nothing in the sequence waits for it");
}

TEST_F(ProgramSequenceTest, AWaitHasAStart) {
  function("first", 0, 3);
  function("last", 4, 0);
  programs.sequence("s", {{"first", 1}, {"last", 1}});
  refuse("sequence s: call 1 of last: last.gather (wait, last.py:7), command 0 "
         "waits for number 4, which nothing before it in the sequence has "
         "started");
}

TEST_F(ProgramSequenceTest, ARepeatedCallMustFitBehindItself) {
  function("first", 0, 3);
  function("last", 3, 0);
  programs.sequence("s", {{"first", 0}, {"last", 1}});
  refuse("call 0 of first: first.gather (all_gather, first.py:7), command 0 is "
         "carried under number 3, as is first.gather");
}

TEST_F(ProgramSequenceTest, GivesUpOnSequencesWithoutEnd) {
  function("first", 0, 3);
  FunctionWriter f = programs.function("long");
  View x = f.argument(ElementType::F32, 8);
  for (int i = 0; i != 4096; ++i)
    f.fill(x);
  std::vector<std::pair<std::string, uint32_t>> calls(4100, {"long", 1});
  programs.sequence("short", calls);
  calls.insert(calls.begin(), {"first", 1});
  programs.sequence("s", calls);
  refuse("sequence s: call 4096 of long: the sequence has more than 16777216 "
         "commands while something is carried");
}

TEST_F(ProgramSequenceTest, CallsWhatIsThere) {
  function("first", 0, 0);
  programs.sequence("s", {{"second", 1}});
  refuse("sequence s: calls \"second\", which there is not");
}

TEST_F(ProgramSequenceTest, HasCallsAndANameOfItsOwn) {
  function("first", 0, 0);
  programs.sequence("s", {});
  refuse("sequence s: calls nothing");
}

TEST_F(ProgramSequenceTest, NamesDiffer) {
  function("first", 0, 0);
  programs.sequence("s", {{"first", 1}});
  programs.sequence("s", {{"first", 2}});
  refuse("sequence \"s\": expected names that differ");
}

TEST_F(ProgramSequenceTest, BindsArgumentsOnce) {
  function("first", 0, 0);
  auto bind = [&](uint32_t argument, const char *buffer) {
    auto binding = std::make_unique<BindingT>();
    binding->argument = argument;
    binding->buffer = buffer;
    return binding;
  };
  auto &bindings = programs.sequence("s", {{"first", 1}}).calls[0]->bindings;
  bindings.push_back(bind(1, "a"));
  bindings.push_back(bind(1, "b"));
  refuse("sequence s: binds argument 1 of first to \"b\"; expected one of 2 "
         "arguments, each once, and a buffer");
}

/// Ranks with tables of their own.
class ProgramTablesTest : public ProgramSequenceTest {
protected:
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
};

TEST_F(ProgramTablesTest, RanksOfAGroupStartTheSameInOrder) {
  // Ranks 0 and 1 are in one group of `col`, and 0 and 2 in one of `row`.
  table(2, /*axis=*/0, {8, 16});
  table(2, /*axis=*/0, {16, 8});
  refuse(
      "ranks 0 and 2 start different collectives: number 1 of f on mesh axis "
      "row is h.8 (all_reduce, x.py:3), command 0, all_reduce of 1x8 f32, on "
      "rank 0, and h.16 (all_reduce, x.py:3), command 0, all_reduce of 1x16 "
      "f32, on rank 2");
}

TEST_F(ProgramTablesTest, OneMayNotStartMore) {
  table(2, /*axis=*/0, {8, 16});
  table(2, /*axis=*/0, {8});
  refuse("number 2 of f on mesh axis row is h.16 (all_reduce, x.py:3), command "
         "2, all_reduce of 1x16 f32, on rank 0, and none, on rank 2");
}

TEST_F(ProgramTablesTest, RanksOfDifferentGroupsDiffer) {
  table(2, /*axis=*/1, {8, 16});
  table(2, /*axis=*/1, {16, 8, 8});
  accept();
}

} // namespace
