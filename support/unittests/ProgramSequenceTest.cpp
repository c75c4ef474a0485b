//===- ProgramSequenceTest.cpp - That ranks and calls fit together --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

#include "optimus-support/ProgramPrinter.h"
#include "optimus-support/ProgramSequence.h"

#include <functional>

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
    if (waitsFor)
      f.waitCarried(waitsFor);
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
         "waits for number 4, under which nothing in the sequence is "
         "started");
}

TEST_F(ProgramSequenceTest, TheNextRunMayWaitForWhatIsCarried) {
  function("step", 3, 3);
  function("others", 0, 0);
  programs.sequence("s", {{"others", 1}, {"step", 1}});
  programs.sequence("often", {{"step", 0}});
  accept();
}

TEST_F(ProgramSequenceTest, EachRunLeavesTheSame) {
  function("first", 3, 0);
  function("last", 0, 3);
  programs.sequence("good", {{"first", 1}, {"last", 1}});
  function("twice", 0, 3);
  programs.sequence("bad", {{"twice", 1},
                            {"first", 1},
                            {"last", 1},
                            {"first", 1},
                            {"first", 1},
                            {"last", 1}});
  refuse("sequence bad: when it is run a second time: call 0 of twice");
}

/// A step that reads a weight and gathers it anew for the next one.
class ProgramCarriedMemory : public ProgramSequenceTest {
protected:
  void step(bool waitsFirst) {
    FunctionWriter f = programs.function("step");
    View weight = f.argument(ElementType::F32, 16, "w"),
         part = f.argument(ElementType::F32, 8, "part"),
         x = f.argument(ElementType::F32, 16, "x");
    if (!waitsFirst)
      f.copy(weight, x);
    f.waitCarried(1);
    if (waitsFirst)
      f.copy(weight, x);
    f.fill(part);
    CollectiveT gather;
    gather.kind = CollectiveKind::AllGather;
    gather.axes = {0};
    gather.outer = 1;
    gather.inner = 8;
    gather.carried = 1;
    f.collective(std::move(gather), part, weight);
    programs.sequence("s", {{"step", 1}});
  }
};

TEST_F(ProgramCarriedMemory, IsReadBehindTheWait) {
  step(/*waitsFirst=*/true);
  accept();
}

TEST_F(ProgramCarriedMemory, IsNotReadBeforeTheWait) {
  step(/*waitsFirst=*/false);
  refuse("sequence s: when it is run a second time: call 0 of step: "
         "command 0 (copy) touches \"w\" of command 3 (all_gather)");
}

TEST_F(ProgramCarriedMemory, IsNotTouchedByOthers) {
  step(/*waitsFirst=*/true);
  FunctionWriter f = programs.function("other");
  f.fill(f.argument(ElementType::F32, 16, "w"));
  programs.sequence("t", {{"step", 1}, {"other", 1}});
  refuse("sequence t: call 1 of other: command 0 (fill) touches \"w\" of");
}

/// Two stages along `row`: calls of the first one send, those of the second one
/// receive, and later calls wait.
class ProgramCarriedMessages : public ProgramTest {
protected:
  ProgramCarriedMessages() : ProgramTest(Mesh({{"row", 2}, {"col", 2}})) {}

  /// Starts message `number`, of a buffer.
  void start(const std::string &name, bool isSend, uint32_t number) {
    FunctionWriter f = programs.function(name);
    View slot = f.argument(ElementType::F32, 4, "slot");
    if (isSend)
      f.fill(slot);
    f.message(isSend, 0, isSend ? 1 : 0, slot, number);
  }
  /// Waits for it after `before` commands on the buffer, and then writes it.
  void settle(const std::string &name, uint32_t number,
              const std::function<void(FunctionWriter &, View)> &before = {}) {
    FunctionWriter f = programs.function(name);
    View slot = f.argument(ElementType::F32, 4, "slot");
    if (before)
      before(f, slot);
    f.waitCarried(number);
    f.fill(slot);
  }
  using Write = std::function<void(SequenceWriter &)>;
  /// The stages' calls; `first` and `second` are what they do before the wait.
  void stages(const Write &one, const Write &other,
              const std::function<void(FunctionWriter &, View)> &first = {},
              const std::function<void(FunctionWriter &, View)> &second = {}) {
    programs.beginTable(2);
    start("send", true, 1);
    settle("sent", 1, first);
    SequenceWriter sends = programs.sequence("s");
    one(sends);
    programs.beginTable(2);
    start("receive", false, 1);
    settle("received", 1, second);
    SequenceWriter receives = programs.sequence("s");
    other(receives);
  }
  static void sends(SequenceWriter &steps) {
    steps.loop(3, [](SequenceWriter &body) { body.call("send").call("sent"); });
  }
  static void receives(SequenceWriter &steps) {
    steps.loop(
        3, [](SequenceWriter &body) { body.call("receive").call("received"); });
  }
  static void write(FunctionWriter &f, View slot) { f.fill(slot); }
  static void read(FunctionWriter &f, View slot) {
    f.copy(slot, f.argument(ElementType::F32, 4, "x"));
  }
  void accept() {
    const Status found = check(programs.finish());
    EXPECT_TRUE(found.ok()) << found.message();
  }
};

TEST_F(ProgramCarriedMessages, AreWaitedForBeforeTheirMemoryIsWritten) {
  stages(sends, receives);
  accept();
}

TEST_F(ProgramCarriedMessages, AreReadBeside) {
  stages(sends, receives, read);
  accept();
}

TEST_F(ProgramCarriedMessages, AreNotOverwritten) {
  stages(sends, receives, write);
  refuse("sequence s: call 1 of sent on turn 0: command 0 (fill) touches "
         "\"slot\" of command 1 (send), which is carried under number 1, and "
         "comes after no wait for it");
}

TEST_F(ProgramCarriedMessages, AreNotReadBeforeTheyHaveCome) {
  stages(sends, receives, {}, read);
  refuse("sequence s: call 1 of received on turn 0: command 0 (copy) touches "
         "\"slot\" of command 0 (receive)");
}

/// A later call of the same function, before the wait.
TEST_F(ProgramCarriedMessages, KeepTheirSlot) {
  auto twice = [](SequenceWriter &steps) {
    steps.call("send").call("send").call("sent").call("sent");
  };
  stages(twice, receives);
  refuse("sequence s: call 1 of send: command 0 (fill) touches \"slot\" of "
         "command 1 (send), which is carried under number 1");
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
  Calls calls(4100, {"long", 1});
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
  programs.sequence("s").call("first", {{.argument = 1, .buffers = {"a"}},
                                        {.argument = 1, .buffers = {"b"}}});
  refuse("sequence s: binds argument 1 of first; expected one of 2 arguments, "
         "each once, and a buffer");
}

/// A weight "w" and its packed form "p".
class ProgramPrepareTest : public ProgramSequenceTest {
protected:
  FunctionWriter prepare(int64_t elements = 8, const char *name = "prepare") {
    FunctionWriter f = programs.function(name);
    f.table().prepares = true;
    View w = f.argument(ElementType::F32, 8, "w"),
         p = f.argument(ElementType::F32, 8, "p");
    f.copy(f.at(w, 0, elements), f.at(p, 0, elements));
    return f;
  }
  /// A function that copies one of the two, or something else, to another one.
  void function(const std::string &name, const char *from, const char *to) {
    FunctionWriter f = programs.function(name);
    View x = f.argument(ElementType::F32, 8, from),
         y = f.argument(ElementType::F32, 8, to);
    f.copy(x, y);
  }
  void functions() {
    prepare();
    function("use", "p", "x");
    function("update", "x", "w");
  }
};

TEST_F(ProgramPrepareTest, ReadsWhatIsFresh) {
  functions();
  programs.sequence("s", {{"prepare", 1}, {"use", 0}, {"update", 1}});
  programs.sequence(
      "again",
      {{"prepare", 1}, {"use", 3}, {"update", 1}, {"prepare", 1}, {"use", 1}});
  accept();
}

TEST_F(ProgramPrepareTest, ASequencePreparesForItself) {
  functions();
  programs.sequence("s", {{"use", 1}});
  refuse("sequence s: call 0 of use: reads \"p\"; expected an earlier call of "
         "prepare, which prepares it");
}

TEST_F(ProgramPrepareTest, WhatChangesASourceMakesItStale) {
  functions();
  programs.sequence("s",
                    {{"prepare", 1}, {"use", 1}, {"update", 1}, {"use", 1}});
  refuse("sequence s: call 3 of use: reads \"p\"; expected an earlier call of "
         "prepare, which prepares it, after update has written \"w\"");
}

TEST_F(ProgramPrepareTest, ARepeatedCallMayMakeItStaleForItself) {
  prepare();
  FunctionWriter f = programs.function("step");
  View w = f.argument(ElementType::F32, 8, "w"),
       p = f.argument(ElementType::F32, 8, "p");
  f.copy(p, w);
  programs.sequence("s", {{"prepare", 1}, {"step", 0}});
  refuse("sequence s: call 1 of step: reads \"p\"");
}

TEST_F(ProgramPrepareTest, ABindingOfASourceMakesItStale) {
  functions();
  function("other", "x", "y");
  programs.sequence("s")
      .call("prepare")
      .call("other", {{.argument = 1, .buffers = {"w"}}})
      .call("use");
  refuse("sequence s: call 2 of use: reads \"p\"");
}

TEST_F(ProgramPrepareTest, WhatIsPreparedIsPassedAsItIs) {
  functions();
  programs.sequence("s").call("prepare").call("use", {{.buffers = {"x"}}});
  refuse("sequence s: call 1 of use: binds argument 0; expected \"p\" to be "
         "passed as it is: it is prepared");
}

TEST_F(ProgramPrepareTest, OthersOnlyReadIt) {
  functions();
  function("spoil", "x", "p");
  refuse("spoil: argument 1, \"p\", is written; expected it to be read: "
         "prepare prepares it");
}

TEST_F(ProgramPrepareTest, HasOnePreparer) {
  functions();
  prepare(8, "again");
  refuse("again: argument 1, \"p\", is written; expected nothing that another "
         "function prepares");
}

TEST_F(ProgramPrepareTest, IsFilled) {
  prepare(4);
  refuse("prepare: argument 1, \"p\", is written; expected a command that "
         "fills all of it");
}

TEST_F(ProgramPrepareTest, IsMadeOfOthers) {
  FunctionWriter f = programs.function("prepare");
  f.table().prepares = true;
  View p = f.argument(ElementType::F32, 8, "p");
  f.launch("twice", {.extent = 8}, {update(p)});
  refuse("prepare: argument 0, \"p\", is updated; expected what is prepared, "
         "or its source, under a name");
}

TEST_F(ProgramPrepareTest, AccessesAreThoseOfCommands) {
  functions();
  ProgramsT all = programs.finish();
  // As if it read nothing of it.
  all.targets[0]->tables[0]->functions[1]->arguments[0]->access = Access::Write;
  Status status = check(all);
  EXPECT_THAT(status.message(),
              HasSubstr("use: argument 0, \"p\", is written; expected it to be "
                        "read, as its commands do"));
}

class ProgramPackTest : public ProgramPrepareTest {
protected:
  /// Packs a weight of 4 rows, for a product that takes it as 4 x 3.
  void pack(int64_t cols) {
    FunctionWriter f = programs.function("prepare");
    f.table().prepares = true;
    PackMatrixT pack;
    pack.rows = 4;
    pack.cols = cols;
    f.pack(std::move(pack), f.argument(ElementType::F32, 4 * cols, "w"),
           f.argument(ElementType::F32, 16, "p"));
    FunctionWriter g = programs.function("use");
    GemmT gemm;
    gemm.m = 2;
    gemm.n = 3;
    gemm.k = 4;
    gemm.packed_b = true;
    const View a = g.argument(ElementType::F32, 8, "a"),
               b = g.argument(ElementType::F32, 16, "p"),
               c = g.argument(ElementType::F32, 6, "c");
    g.gemm(std::move(gemm), {.a = a, .b = b, .c = c});
    programs.sequence("s", {{"prepare", 1}, {"use", 0}});
  }
};

TEST_F(ProgramPackTest, AProductReadsWhatWasPackedForIt) {
  pack(3);
  accept();
}

TEST_F(ProgramPackTest, ItIsPackedForItsShape) {
  pack(2);
  refuse("function use: command 0 (gemm) reads a packed B of 4 x 3 in 16 "
         "elements; expected an earlier pack of such a one");
}

/// Loops, and bindings that depend on their counters.
class ProgramLoopTest : public ProgramSequenceTest {
protected:
  void SetUp() override {
    function("first", 0, 0);
    function("last", 0, 0);
  }
  static Choose choose(std::vector<CounterTerm> terms, int64_t constant = 0) {
    return {1, {"a", "b", "c"}, constant, std::move(terms)};
  }
};

TEST_F(ProgramLoopTest, AreOverSeveralCalls) {
  programs.sequence("s")
      .loop(2,
            [&](SequenceWriter &body) {
              body.call("first", {choose({CounterTerm(1, 0)})})
                  .loop(2, [&](SequenceWriter &inner) {
                    inner.call(
                        "last",
                        {choose({CounterTerm(-1, 0), CounterTerm(-1, 1)}, 2)});
                  });
            })
      .loop(0, [&](SequenceWriter &body) { body.call("first").call("last"); })
      .call("last");
  const ProgramsT all = programs.finish();
  ASSERT_TRUE(check(all).ok()) << check(all).message();
  const SequenceT &sequence = *findSequence(*all.targets[0]->tables[0], "s");
  EXPECT_EQ(print(sequence),
            "sequence s: (first arg1=[a, b, c][i0], "
            "last arg1=[a, b, c][-1 * i0 + -1 * i1 + 2] x 2) x 2, "
            "(first, last) x N, last\n");
  std::string text;
  for (const SequencedCall &call : callsOf(sequence, 2)) {
    text += call.name() + ";";
    for (const auto &binding : call.call->bindings)
      text += call.bufferOf(*binding) + ";";
  }
  EXPECT_EQ(text,
            "call 0 of first on turn 0;a;call 1 of last on turn 0, 0;c;call 1 "
            "of last on turn 0, 1;b;call 0 of first on turn 1;b;call 1 of last "
            "on turn 1, 0;b;call 1 of last on turn 1, 1;a;call 2 of first;call "
            "3 of last;call 2 of first;call 3 of last;call 4 of last;");
}

TEST_F(ProgramLoopTest, ChooseABufferOnEveryTurn) {
  programs.sequence("s").loop(4, [&](SequenceWriter &body) {
    body.call("first", {choose({CounterTerm(1, 0)})});
  });
  refuse("sequence s: argument 1 of first: its buffer is number 0 to 3 of 3");
}

TEST_F(ProgramLoopTest, ChooseNoBufferBeforeTheFirst) {
  programs.sequence("s").loop(3, [&](SequenceWriter &body) {
    body.call("first", {choose({CounterTerm(-1, 0)}, 1)});
  });
  refuse("its buffer is number -1 to 1 of 3");
}

TEST_F(ProgramLoopTest, ChooseByLoopsAroundTheCall) {
  programs.sequence("s").loop(3, [&](SequenceWriter &body) {
    body.call("first", {choose({CounterTerm(1, 1)})});
  });
  refuse("its buffer depends on loop 1; expected one of the 1 around the call");
}

TEST_F(ProgramLoopTest, ChooseByNumbersThatAreKnown) {
  programs.sequence("s").loop(0, [&](SequenceWriter &body) {
    body.call("first", {choose({CounterTerm(1, 0)})});
  });
  refuse("its buffer depends on a loop that the caller counts");
}

TEST_F(ProgramLoopTest, OverflowNothing) {
  programs.sequence("s").loop(UINT32_MAX, [&](SequenceWriter &body) {
    body.call("first", {choose({CounterTerm(INT64_MAX, 0)})});
  });
  refuse("makes more than 65536 calls");
}

TEST_F(ProgramLoopTest, CountByTheCallerOutsideOthersOnly) {
  programs.sequence("s").loop(2, [](SequenceWriter &body) {
    body.loop(0, [](SequenceWriter &inner) { inner.call("first"); });
  });
  refuse("has a loop that the caller counts within another loop");
}

TEST_F(ProgramLoopTest, AreNotEmpty) {
  programs.sequence("s").call("first").loop(2, [](SequenceWriter &) {});
  refuse("sequence s: has an empty loop");
}

TEST_F(ProgramLoopTest, EndInTime) {
  programs.sequence("s").loop(256, [](SequenceWriter &body) {
    body.loop(257, [](SequenceWriter &inner) { inner.call("first"); });
  });
  refuse("makes more than 65536 calls");
}

TEST_F(ProgramLoopTest, AreNotNestedWithoutEnd) {
  std::function<void(SequenceWriter &, int)> nest = [&](SequenceWriter &body,
                                                        int depth) {
    if (depth == 0)
      body.call("first");
    else
      body.loop(1, [&](SequenceWriter &inner) { nest(inner, depth - 1); });
  };
  SequenceWriter sequence = programs.sequence("s");
  nest(sequence, 9);
  refuse("has more than 8 loops in each other");
}

TEST_F(ProgramSequenceTest, ALoopMustFitBehindItself) {
  function("first", 0, 3);
  function("last", 3, 0);
  programs.sequence("good").loop(
      3, [](SequenceWriter &body) { body.call("first").call("last"); });
  programs.sequence("s").loop(0,
                              [](SequenceWriter &body) { body.call("first"); });
  refuse("sequence s: call 0 of first: first.gather (all_gather, first.py:7), "
         "command 0 is carried under number 3, as is first.gather");
}

} // namespace
