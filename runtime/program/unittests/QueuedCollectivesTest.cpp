//===- QueuedCollectivesTest.cpp - Collectives on a device's queues -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgramFixture.h"

#include "optimus-runtime/QueuedCollectives.h"

#include <gmock/gmock.h>

using namespace optrt;
using optimus_support::program::CollectiveKind;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

/// Notes its calls.
class NotedCollectives final : public QueuedCollectives {
public:
  explicit NotedCollectives(Status outcome) : outcome(std::move(outcome)) {}

  void beginCall(uint32_t function,
                 std::span<const PlannedCollective> planned) override {
    std::string text = "begin";
    for (const PlannedCollective &one : planned)
      text += concat(" ", one.command);
    calls.push_back(text);
  }
  Status enqueue(Queue queue,
                 std::span<const QueuedCollective> together) override {
    std::string text;
    for (const QueuedCollective &one : together) {
      text += concat(collectiveName(one.desc->kind), " ");
      peers.push_back(one.desc->root);
    }
    calls.push_back(concat(text, "on ", queue.number));
    return okStatus();
  }
  Status check() override { return outcome; }
  Status endCall() override {
    calls.push_back("end");
    return outcome;
  }

  int64_t heldBytes() const override { return 0; }

  std::vector<std::string> calls;
  std::vector<int32_t> peers; ///< or roots
  Status outcome;
};

class QueuedCollectivesTest : public BoundProgramTest {
protected:
  /// Of a function that gathers and sums 8 floats a rank of axis row.
  StatusOr<BoundProgram> bindTwo(Status outcome = okStatus()) {
    f.wait(f.collective(CollectiveKind::AllGather, {0}, f.at(memory, 0, 8),
                        f.at(memory, 16, 16)));
    f.wait(f.collective(CollectiveKind::AllReduce, {0}, f.at(memory, 0, 8),
                        f.at(memory, 0, 8)));
    return bindQueued(std::move(outcome));
  }
  StatusOr<BoundProgram> bindQueued(Status outcome = okStatus()) {
    isQueued = true;
    StatusOr<BoundProgram> program = bind(0);
    device->records = true;
    auto made = std::make_unique<NotedCollectives>(std::move(outcome));
    noted = made.get();
    context->queued = std::move(made);
    return program;
  }

  /// Of 4 floats, or 4 for each rank, on axis row.
  uint32_t start(CollectiveKind kind, uint32_t group, program::View src,
                 program::View dst) {
    program::CollectiveT one;
    one.kind = kind;
    one.axes = {0};
    one.outer = 1;
    one.inner = 4;
    one.group = group;
    return f.collective(std::move(one), src, dst);
  }
  /// To or from the other rank of axis row.
  template <typename Message>
  uint32_t message(uint32_t group, program::View data) {
    Message one;
    one.axis = 0;
    one.peer = std::make_unique<program::IntegerT>();
    one.peer->constant = 1;
    one.peer->terms = {program::Term(-1, 0)};
    one.rows = 1;
    one.cols = one.ld = 4;
    one.group = group;
    program::ActionUnion action;
    action.Set(std::move(one));
    return f.add(std::move(action), {data});
  }

  NotedCollectives *noted = nullptr;
};

TEST_F(QueuedCollectivesTest, AreRecordedAndNotSubmittedAgain) {
  auto program = bindTwo();
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(noted->calls,
              ElementsAre("begin 0 2", "all_gather on 1", "all_reduce on 1"));
  ASSERT_TRUE(program->run(*context).ok());
  noted->calls.clear();
  device->calls.clear();
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(noted->calls, ElementsAre("begin 0 2"));
  EXPECT_THAT(device->calls, ElementsAre("replay 7 on 0"));
}

TEST_F(QueuedCollectivesTest, NoHostCodeIsCalledForThem) {
  auto program = bindTwo();
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(program->run(*context).ok());
  for (const std::string &call : device->calls)
    EXPECT_THAT(call, testing::Not(testing::StartsWith("call")));
  EXPECT_THAT(context->startedCollectives, IsEmpty());
}

/// The same when it is submitted, recorded and replayed.
TEST_F(QueuedCollectivesTest, TrafficIsThatOfEachCall) {
  auto program = bindTwo();
  ASSERT_TRUE(program.ok());
  for (int call = 0; call != 3; ++call) {
    context->resetCounters();
    ASSERT_TRUE(program->run(*context).ok());
    EXPECT_EQ(context->traffic[0].messages, 2);
    // Among 2 ranks: 64 bytes are gathered, 32 summed.
    EXPECT_EQ(context->traffic[0].bytes, 64 + 2 * 32);
    EXPECT_EQ(context->traffic[1].messages, 0);
  }
}

//===----------------------------------------------------------------------===//
// What only they know
//===----------------------------------------------------------------------===//

TEST_F(QueuedCollectivesTest, NeighboursOfAGroupStartTogether) {
  const uint32_t first = start(CollectiveKind::AllReduce, 1, f.at(memory, 0, 4),
                               f.at(memory, 0, 4));
  // Another queue's command in between is put there before them.
  f.fill(f.at(memory, 32, 4));
  const uint32_t second = start(CollectiveKind::AllToAll, 1, f.at(memory, 8, 8),
                                f.at(memory, 16, 8));
  const uint32_t third = start(CollectiveKind::AllReduce, 2, f.at(memory, 4, 4),
                               f.at(memory, 4, 4));
  for (uint32_t one : {third, first, second})
    f.wait(one);
  auto program = bindQueued();
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(noted->calls,
              ElementsAre("begin 0 2 3", "all_reduce all_to_all on 1",
                          "all_reduce on 1"));
  // Both of the group begin behind the fill, and are awaited where both have
  // started.
  EXPECT_THAT(device->calls,
              ElementsAre("zeros 1x4 on 0", "record on 0", "await 1 on 1",
                          "record on 1", "record on 1", "await 1 on 1",
                          "record on 1", "await 4 on 0", "await 2 on 0",
                          "await 3 on 0"));
  // Among 2 ranks: 16 bytes are summed twice, and 16 go each way.
  EXPECT_EQ(context->traffic[0].messages, 3);
  EXPECT_EQ(context->traffic[0].bytes, 2 * 2 * 16 + 2 * 16);
}

TEST_F(QueuedCollectivesTest, MessagesGoToAndFromAPeer) {
  const uint32_t send = message<program::SendT>(1, f.at(memory, 0, 4)),
                 receive = message<program::ReceiveT>(1, f.at(memory, 4, 4));
  f.wait(send);
  f.wait(receive);
  auto program = bindQueued();
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(noted->calls, ElementsAre("begin 0 1", "send receive on 1"));
  EXPECT_EQ(noted->peers, (std::vector<int32_t>{1, 1}));
  // Who sends counts the bytes; there is no collective.
  EXPECT_EQ(context->traffic[0].bytes, 16);
  EXPECT_EQ(context->traffic[0].messages, 0);
}

TEST_F(QueuedCollectivesTest, NothingComesBetweenAGroupAndItsWait) {
  const uint32_t first = start(CollectiveKind::AllReduce, 1, f.at(memory, 0, 4),
                               f.at(memory, 0, 4));
  f.wait(first);
  const uint32_t second = start(CollectiveKind::AllReduce, 1,
                                f.at(memory, 4, 4), f.at(memory, 4, 4));
  f.wait(second);
  all = programs.finish();
  isFinished = true;
  // The second need not come after the wait for the first.
  all.targets[0]->tables[0]->functions[0]->commands[second]->after.clear();
  auto program = bindQueued();
  EXPECT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(),
              testing::HasSubstr("this device has no command that comes after "
                                 "one of a group and before its last"));
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// When commands end and begin does not follow from when they are put on
/// queues: the first collective runs from 100 to 110 ns, and its wait is
/// reached at 104; the second from 120 to 140, and at 130.
class TimedQueuesTest : public QueuedCollectivesTest {
protected:
  struct Observer final : CommandObserver {
    void begin(const BoundProgram &, Site) override {}
    void end(const BoundProgram &, Site) override {}
    void transferred(uint32_t command, Clock::time_point begin,
                     Clock::time_point end) override {
      seen.push_back(concat(command, " from ", begin.time_since_epoch().count(),
                            " to ", end.time_since_epoch().count()));
    }
    std::vector<std::string> seen;
  };

  std::vector<CommunicationTime> timesOfCall(Observer *observer = nullptr) {
    auto program = bindTwo();
    EXPECT_TRUE(program.ok());
    context->isEager = isEager;
    context->timesQueued = !observer;
    context->observer = observer;
    device->clock = {100, 110, 104, 120, 140, 130};
    EXPECT_TRUE(program->run(*context).ok());
    EXPECT_TRUE(context->endCall().ok());
    return context->communicationTimes();
  }

  bool isEager = false;
};

TEST_F(TimedQueuesTest, WhatAQueueStandsStillForIsExposed) {
  const std::vector<CommunicationTime> times = timesOfCall();
  for (size_t slot : {0u, 2u}) { // axis row, and all axes
    EXPECT_DOUBLE_EQ(times[slot].inFlight, 30e-9);
    EXPECT_DOUBLE_EQ(times[slot].exposed, 16e-9);
  }
  EXPECT_EQ(times[1].inFlight, 0);
}

TEST_F(TimedQueuesTest, NothingIsHiddenWhereTheHostWaits) {
  isEager = true;
  const std::vector<CommunicationTime> times = timesOfCall();
  EXPECT_DOUBLE_EQ(times[0].inFlight, 30e-9);
  EXPECT_DOUBLE_EQ(times[0].exposed, 30e-9);
}

TEST_F(TimedQueuesTest, AnObserverIsToldOfThem) {
  Observer observer;
  EXPECT_DOUBLE_EQ(timesOfCall(&observer)[0].exposed, 16e-9);
  EXPECT_THAT(observer.seen,
              ElementsAre("0 from 100 to 110", "2 from 120 to 140"));
}

TEST_F(TimedQueuesTest, ThoseOfAnUntimedCallAreNone) {
  auto program = bindTwo();
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(program->run(*context).ok());
  ASSERT_TRUE(context->endCall().ok());
  EXPECT_EQ(context->communicationTimes()[0].inFlight, 0);
}

TEST_F(QueuedCollectivesTest, TheirFailureEndsTheCall) {
  auto program = bindTwo(unavailable("a network broke"));
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_EQ(context->endCall().message(), "a network broke");
}

} // namespace
