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
  Status enqueue(Queue queue, const optrt_collective_desc &desc, const void *,
                 void *) override {
    calls.push_back(concat(collectiveName(desc.kind), " on ", queue.number));
    return okStatus();
  }
  Status endCall() override {
    calls.push_back("end");
    return outcome;
  }

  std::vector<std::string> calls;
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
    StatusOr<BoundProgram> program = bind(0);
    device->records = true;
    auto made = std::make_unique<NotedCollectives>(std::move(outcome));
    noted = made.get();
    context->queued = std::move(made);
    return program;
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

TEST_F(QueuedCollectivesTest, TheirFailureEndsTheCall) {
  auto program = bindTwo(unavailable("a network broke"));
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_EQ(context->endCall().message(), "a network broke");
}

} // namespace
