//===- SequencesTest.cpp - What ranks run by themselves -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SessionFixture.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <gmock/gmock.h>
#include <mutex>
#include <utility>

using namespace optrt;
using testing::HasSubstr;

TEST_F(SessionTest, RunsTheCallsOfASequence) {
  open({"eval_step", "grad_step"}, {"eval_twice"});
  ASSERT_TRUE(session->initialize(7).ok());
  auto outputs = runSequence("eval_twice", 2, 3);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->realCount(), 32);
  auto gradient = session->gather("grad:table.bias");
  ASSERT_TRUE(gradient.ok()) << gradient.status().message();
  // What all its calls have moved.
  Status counted = session->checkTraffic("eval_twice");
  EXPECT_TRUE(counted.ok()) << counted.message();
  auto ofSequence = session->trafficOfLastRun();
  ASSERT_TRUE(ofSequence.ok());

  // The last call has had the last batch; one by one they do the same.
  int64_t bytes = 0, messages = 0;
  auto runAlone = [&](const char *function, int batch) {
    EXPECT_TRUE(fill(batch).ok());
    outputs = session->run(function);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    auto traffic = session->trafficOfLastRun();
    ASSERT_TRUE(traffic.ok());
    bytes += traffic->front().bytes;
    messages += traffic->front().messages;
  };
  const float last = outputs->lossSum();
  runAlone("eval_step", 0);
  runAlone("eval_step", 1);
  EXPECT_NE(outputs->lossSum(), last);
  runAlone("grad_step", 2);
  EXPECT_EQ(outputs->lossSum(), last);
  EXPECT_EQ(*session->gather("grad:table.bias"), *gradient);
  EXPECT_EQ(ofSequence->front().bytes, bytes);
  EXPECT_EQ(ofSequence->front().messages, messages);
}

namespace {

/// Notes the calls of a rank.
class CallList final : public CommandObserver {
public:
  bool beginCall(std::size_t call) override {
    calls.push_back(call);
    return false;
  }
  void begin(const BoundProgram &, Site) override {}
  void end(const BoundProgram &, Site) override {}
  std::vector<std::size_t> calls;
};

} // namespace

TEST_F(SessionTest, RunsLoopsOverSeveralCalls) {
  CallList lists[2];
  open({}, {"eval_both"}, [&](const Rank &rank) { return &lists[rank.rank]; });
  ASSERT_TRUE(session->initialize(7).ok());
  auto outputs = runSequence("eval_both", 2, 8);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  std::vector<std::string> called;
  for (std::size_t call : lists[0].calls) {
    const Session::Callable &one = session->calls()[call];
    called.push_back(one.function->name + " " +
                     session->manifest().buffers[one.buffers[0]].name);
  }
  const std::string evalTable = "eval_step table.weight",
                    grad = "grad_step table.weight";
  EXPECT_THAT(called, testing::ElementsAre(
                          evalTable, grad, "eval_step exp_avg:table.weight",
                          grad, evalTable, grad, evalTable, grad));
  EXPECT_EQ(lists[0].calls, lists[1].calls);
  Status counted = session->checkTraffic("eval_both");
  EXPECT_TRUE(counted.ok()) << counted.message();
  // The last call has had the last batch.
  const float last = outputs->lossSum();
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill(7).ok());
  outputs = session->run("grad_step");
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->lossSum(), last);
}

TEST_F(SessionTest, BeginsNoSequenceThatCannotEnd) {
  open({"eval_step"}, {"eval_twice", "train"});
  ASSERT_TRUE(session->initialize(7).ok());
  auto refuse = [&](const char *name, int64_t times, int batches,
                    const char *message) {
    auto outputs = runSequence(name, times, batches);
    ASSERT_FALSE(outputs.ok());
    EXPECT_THAT(outputs.status().message(), HasSubstr(message));
    EXPECT_TRUE(session->canGoOn());
  };
  refuse("eval_twice", 0, 3, "expected at least 1");
  refuse("eval_twice", 2, 2, "was given 2 batches; expected 3");
  refuse("eval_twice", 2, 4, "was given 4 batches; expected 3");
  refuse("eval_average", 1, 1, "the sequence eval_average was not chosen");
  refuse("train", 1, 1, "train_step reads \"lr\", which the host must fill");
  const std::vector<CallInputs> unread(3);
  EXPECT_THAT(session->submitSequence("eval_twice", 2, unread).message(),
              HasSubstr("it was not read"));
  // Nothing of them has become the input of a function.
  EXPECT_THAT(session->run("eval_step").status().message(),
              HasSubstr("\"tokens\", which the data must fill"));
  EXPECT_TRUE(runSequence("eval_twice", 2, 3).ok());
}

TEST_F(SessionTest, LeavesRanksAloneDuringASequence) {
  open({}, {"eval_twice"});
  ASSERT_TRUE(session->initialize(7).ok());
  const std::vector<CallInputs> batches = inputs(3);
  ASSERT_TRUE(session->submitSequence("eval_twice", 2, batches).ok());
  EXPECT_THAT(session->submitSequence("eval_twice", 2, batches).message(),
              HasSubstr("while a call is under way"));
  EXPECT_THAT(fill().message(), HasSubstr("while a call is under way"));
  EXPECT_TRUE(session->collect().ok());
}

namespace {

/// Counts the calls that a rank begins. One with an other holds its first call
/// back, when all of it is done, until the other has begun its second.
class Cursor final : public CommandObserver {
public:
  bool beginCall(std::size_t) override {
    std::lock_guard lock(mutex);
    ++begun;
    changed.notify_all();
    return true;
  }
  void endCall() override {
    if (!other || std::exchange(hasWaited, true))
      return;
    std::unique_lock lock(other->mutex);
    hasMet = other->changed.wait_for(lock, std::chrono::seconds(60),
                                     [&] { return other->begun > 1; });
  }
  void begin(const BoundProgram &, Site) override {}
  void end(const BoundProgram &, Site) override {}

  Cursor *other = nullptr;
  bool hasWaited = false, hasMet = false;

private:
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
};

} // namespace

TEST_F(SessionTest, ARankGoesOnWhereAnotherStandsBetweenCalls) {
  Cursor cursors[2];
  cursors[1].other = &cursors[0];
  open({}, {"eval_twice"},
       [&](const Rank &rank) { return &cursors[rank.rank]; });
  ASSERT_TRUE(session->initialize(7).ok());
  EXPECT_TRUE(runSequence("eval_twice", 2, 3).ok());
  EXPECT_TRUE(cursors[1].hasMet);
  // They end before what they look at.
  session.reset();
}

TEST_F(SessionTest, ASequenceBindsOtherBuffers) {
  open({"eval_step"}, {"train", "eval_average"});
  ASSERT_TRUE(session->initialize(7).ok());
  setScalars();
  session->setScalar("beta2_power", 0.5f);
  auto lossOfAverage = [&]() -> double {
    auto outputs = runSequence("eval_average", 1, 1);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? outputs->meanLoss() : 0;
  };
  auto lossOfTable = [&]() -> double {
    auto outputs = session->run("eval_step");
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? outputs->meanLoss() : 0;
  };
  // With a table of zeros, and a bias of zeros, all words are as likely.
  EXPECT_NEAR(lossOfAverage(), std::log(256.0), 1e-5);
  EXPECT_GT(std::abs(lossOfTable() - std::log(256.0)), 1e-4);
  ASSERT_TRUE(runSequence("train", 1, 1).ok());
  EXPECT_GT(std::abs(lossOfAverage() - std::log(256.0)), 1e-4);
  EXPECT_NE(lossOfAverage(), lossOfTable());
}

TEST_F(SessionTest, SequencesMustBeThere) {
  open({"eval_step"});
  SessionOptions options;
  options.sequences = {"decode"};
  auto made = Session::create(*library, world, options);
  EXPECT_THAT(made.status().message(), HasSubstr("has no sequence decode"));
}

/// A session of two ranks with tables of their own.
class StagesTest : public SessionTest {
protected:
  void SetUp() override {
    open({"eval_step", "train_step"}, {"echo"}, {}, OPTIMUS_TOY_STAGES);
    ASSERT_TRUE(session->initialize(7).ok());
    for (int i = 0; i != 256; ++i)
      bias.push_back(static_cast<float>(i) / 512);
    ASSERT_TRUE(session->assign("table.bias", bias).ok());
  }
  bool holds(int rank, const char *name) {
    const auto &held = session->heldBuffers(rank);
    return std::ranges::count(held, *session->manifest().findBuffer(name)) == 1;
  }
  std::vector<float> bias;
};

TEST_F(StagesTest, RanksRunSequencesOfTheirOwn) {
  auto outputs = runSequence("echo", 1, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->realCount(), 32);
  Status counted = session->checkTraffic("echo");
  EXPECT_TRUE(counted.ok()) << counted.message();
  EXPECT_EQ(*session->gather("echo"), bias);
  // What all of them have goes on as before.
  ASSERT_TRUE(fill().ok());
  ASSERT_TRUE(session->run("eval_step").ok());
  EXPECT_TRUE(session->checkTraffic("eval_step").ok());
}

TEST_F(StagesTest, RanksHoldWhatTheirFunctionsUse) {
  EXPECT_TRUE(holds(0, "echo") && holds(0, "slot1") && holds(1, "slot1"));
  EXPECT_FALSE(holds(1, "echo"));
  std::vector<uint8_t> copy;
  EXPECT_TRUE(session->shardOf("echo", 0, copy).ok());
  EXPECT_EQ(session->shardOf("echo", 1, copy).status().message(),
            "rank 1 does not hold the buffer \"echo\"");
}

TEST_F(StagesTest, AFunctionOfSomeRanksIsNotCalledAlone) {
  open({"give"}, {"echo"}, {}, OPTIMUS_TOY_STAGES);
  EXPECT_EQ(session->run("give").status().message(),
            "some ranks have no function give: expected one of all ranks, or a "
            "sequence");
  EXPECT_TRUE(session->canGoOn());
}

TEST_F(StagesTest, SavesAndLoadsWhatSomeRanksHold) {
  const std::string saved = folder("saved");
  ASSERT_TRUE(session->save(saved, stateOf(3)).ok());
  ASSERT_TRUE(session->initialize(8).ok());
  auto checkpoint = Checkpoint::open(saved);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ASSERT_TRUE(session->load(**checkpoint).ok());
  EXPECT_EQ(*session->gather("table.bias"), bias);
  EXPECT_TRUE(session->compareReplicas().ok());
}
