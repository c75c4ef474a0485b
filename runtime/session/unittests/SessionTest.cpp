//===- SessionTest.cpp - What a session fills and reads -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Session.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <limits>
#include <mutex>
#include <unistd.h>
#include <utility>

using namespace optrt;
using testing::HasSubstr;

/// A session of a model written by hand, on a mesh of two ranks.
class SessionTest : public testing::Test {
protected:
  void open(std::vector<std::string> functions,
            std::vector<std::string> sequences = {},
            std::function<CommandObserver *(const Rank &)> observe = {},
            const char *path = OPTIMUS_TOY2) {
    // The library and the world outlive their session.
    session.reset();
    auto opened = ModelLibrary::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    world = createLocalWorld();
    SessionOptions options;
    options.functions = std::move(functions);
    options.sequences = std::move(sequences);
    options.threadsPerRank = 1;
    options.observe = std::move(observe);
    auto made = Session::create(*library, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
  }

  /// Row r of batch b is b + r, b + r + 1, …; targets follow.
  Session::FillRows rowsOf(int number) const {
    return [this, number](int64_t begin, int64_t count, int32_t *tokens,
                          int32_t *targets) {
      const int64_t sequence = session->manifest().sequence;
      for (int64_t i = 0; i != count * sequence; ++i) {
        tokens[i] =
            static_cast<int32_t>(number + begin + i / sequence + i % sequence);
        targets[i] = tokens[i] + 1;
      }
      return okStatus();
    };
  }
  Status fill(int number = 0) { return session->fill(rowsOf(number)); }

  /// The inputs of so many calls: batches 0, 1, …
  std::vector<CallInputs> inputs(int count) const {
    std::vector<CallInputs> all(count);
    for (int number = 0; number != count; ++number)
      EXPECT_TRUE(session->read(rowsOf(number), all[number].batch).ok());
    return all;
  }
  StatusOr<StepOutputs> runSequence(const char *name, int64_t times,
                                    int numBatches) {
    const std::vector<CallInputs> batches = inputs(numBatches);
    OPTRT_RETURN_IF_ERROR(session->submitSequence(name, times, batches));
    return session->collect();
  }

  void setScalars() {
    for (const char *name : {"lr", "weight_decay", "clip", "beta1", "beta2",
                             "epsilon", "beta1_power"})
      session->setScalar(name, 0.5f);
  }

  /// A folder of this test's own that is not there yet.
  static std::string folder(const std::string &name) {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    std::string path = concat(testing::TempDir(), "optimus-session-",
                              test->name(), "-", getpid(), "-", name);
    std::filesystem::remove_all(path);
    return path;
  }
  static std::string bytesOf(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static TrainingState stateOf(int64_t step) {
    TrainingState state;
    state.step = step;
    state.order = "sequential";
    return state;
  }

  std::unique_ptr<ModelLibrary> library;
  World world;
  std::unique_ptr<Session> session;
};

TEST_F(SessionTest, GathersAnyBufferByName) {
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill().ok());
  auto outputs = session->run("grad_step");
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->realCount(), 32);
  EXPECT_EQ(outputs->get("real_count"), 32);
  // A function that is not chosen writes it.
  EXPECT_EQ(outputs->gradNorm(), 0);

  auto gradient = session->gather("grad:table.bias");
  ASSERT_TRUE(gradient.ok()) << gradient.status().message();
  ASSERT_EQ(gradient->size(), 256u);
  // No target is 200, so that its logits' probabilities are all there is.
  EXPECT_GT((*gradient)[200], 0);
  EXPECT_LT((*gradient)[3], 0);
  auto weights = session->gather("table.weight");
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(weights->size(), 256u * 256u);
  EXPECT_NE((*weights)[0], 0);

  auto expectRefused = [&](const char *name, const char *message) {
    auto gathered = session->gather(name);
    ASSERT_FALSE(gathered.ok());
    EXPECT_EQ(gathered.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(gathered.status().message(), HasSubstr(message));
  };
  expectRefused("tokens",
                "cannot be gathered: expected floats that are complete, "
                "found i32");
  expectRefused("exp_avg:table.bias", "no chosen function of");
  expectRefused("logits", "has the buffer \"logits\"");
}

TEST_F(SessionTest, AssignsToAllShardsOfABuffer) {
  open({"grad_step"});
  std::vector<float> whole(256 * 256);
  for (std::size_t i = 0; i != whole.size(); ++i)
    whole[i] = static_cast<float>(i);
  ASSERT_TRUE(session->assign("table.weight", whole).ok());
  EXPECT_EQ(session->gather("table.weight").value(), whole);
  std::vector<uint8_t> copy;
  auto shard = session->shardOf("table.weight", 1, copy);
  ASSERT_TRUE(shard.ok()) << shard.status().message();
  // It is the memory itself.
  EXPECT_TRUE(copy.empty());
  const auto *floats = reinterpret_cast<const float *>(shard->data());
  EXPECT_EQ(floats[0], whole[shard->size() / sizeof(float)]);
  whole[whole.size() - 1] = -1;
  ASSERT_TRUE(session->assign("table.weight", whole).ok());
  EXPECT_EQ(floats[shard->size() / sizeof(float) - 1], -1);

  EXPECT_THAT(
      session->assign("table.weight", std::span(whole).first(3)).message(),
      HasSubstr("expects 65536 elements, found 3"));
  EXPECT_THAT(session->assign("tokens", whole).message(),
              HasSubstr("expected floats that are complete, found i32"));
  EXPECT_THAT(session->shardOf("table.weight", 2, copy).status().message(),
              HasSubstr("expected a rank of this process, from 0 to 1"));
}

TEST_F(SessionTest, HandsOutAnOutputWholeOrARanksPart) {
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill().ok());
  ASSERT_TRUE(session->run("grad_step").ok());
  auto whole = session->output("grad_step", "grad:table.weight");
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->type, ElementType::F32);
  EXPECT_EQ(whole->shape, (std::vector<int64_t>{256, 256}));
  auto gathered = session->gather("grad:table.weight");
  ASSERT_TRUE(gathered.ok()) << gathered.status().message();
  ASSERT_EQ(whole->bytes.size(), gathered->size() * sizeof(float));
  EXPECT_EQ(
      std::memcmp(whole->bytes.data(), gathered->data(), whole->bytes.size()),
      0);
  // Ranks have rows of it, one after the other.
  std::vector<std::byte> parts;
  for (int rank = 0; rank != world.control->size(); ++rank) {
    auto part = session->outputOfRank("grad_step", "grad:table.weight", rank);
    ASSERT_TRUE(part.ok()) << part.status().message();
    EXPECT_EQ(part->shape[1], 256);
    parts.insert(parts.end(), part->bytes.begin(), part->bytes.end());
  }
  ASSERT_GE(parts.size(), whole->bytes.size());
  parts.resize(whole->bytes.size());
  EXPECT_EQ(parts, whole->bytes);
  std::vector<std::byte> streamed;
  Status taken = session->streamOutput(
      "grad_step", "grad:table.weight", [&](std::span<const std::byte> piece) {
        streamed.insert(streamed.end(), piece.begin(), piece.end());
        return okStatus();
      });
  EXPECT_TRUE(taken.ok()) << taken.message();
  EXPECT_EQ(streamed, whole->bytes);
  taken = session->streamOutput(
      "grad_step", "grad:table.weight",
      [](std::span<const std::byte>) { return dataLoss("the disk is full"); });
  EXPECT_EQ(taken.message(), "the disk is full");

  auto refused = session->output("grad_step", "logits");
  EXPECT_EQ(refused.status().code(), StatusCode::InvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("grad_step has no output \"logits\"; it has "
                        "grad:table.weight, grad:table.bias, loss_sum, "
                        "real_count"));
  EXPECT_THAT(
      session->outputOfRank("grad_step", "loss_sum", 99).status().message(),
      HasSubstr("expected a rank of this process"));
  EXPECT_THAT(session->output("train_step", "loss_sum").status().message(),
              HasSubstr("the function train_step was not chosen"));
}

TEST_F(SessionTest, RunsNothingBeforeWhatItReadsIsThere) {
  open({"train_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  auto expectMissing = [&](const char *message) {
    auto outputs = session->run("train_step");
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(outputs.status().message(), HasSubstr(message));
    EXPECT_TRUE(session->canGoOn());
  };
  expectMissing(
      "train_step reads \"tokens\", which the data must fill, and nothing has");
  ASSERT_TRUE(fill().ok());
  setScalars();
  // What it does not take is no concern of the caller's.
  session->setScalar("momentum", 0.5f);
  session->setScalar("tokens", 0.5f);
  session->setScalar("loss_sum", 0.5f);
  expectMissing("train_step reads \"beta2_power\", which the host must fill");
  session->setScalar("beta2_power", 0.5f);
  auto outputs = session->run("train_step");
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_GT(outputs->gradNorm(), 0);
}

TEST_F(SessionTest, ReadsTheNextBatchWhileACallIsUnderWay) {
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  HostBatch batches[2];
  auto read = [&](int number) {
    return session->read(
        [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
          for (int64_t i = 0; i != count * 8; ++i) {
            tokens[i] = static_cast<int32_t>((begin + i + number) % 256);
            targets[i] = (tokens[i] + 1) % 256;
          }
          return okStatus();
        },
        batches[number]);
  };
  auto lossOf = [&](int number) -> float {
    EXPECT_TRUE(session->fill(batches[number]).ok());
    auto outputs = session->run("grad_step");
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? outputs->lossSum() : 0;
  };
  ASSERT_TRUE(read(0).ok());
  ASSERT_TRUE(session->fill(batches[0]).ok());
  ASSERT_TRUE(session->submit("grad_step").ok());
  ASSERT_TRUE(read(1).ok());
  auto outputs = session->collect();
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const float first = outputs->lossSum();
  const float second = lossOf(1);
  EXPECT_NE(first, second);
  // What was read during a call is neither of its inputs nor lost.
  EXPECT_EQ(lossOf(0), first);
  EXPECT_EQ(lossOf(1), second);

  HostBatch empty;
  EXPECT_THAT(session->fill(empty).message(), HasSubstr("it was not read"));
}

TEST_F(SessionTest, LeavesRanksAloneWhileACallIsUnderWay) {
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill().ok());
  EXPECT_THAT(session->collect().status().message(), HasSubstr("of no task"));
  ASSERT_TRUE(session->submit("grad_step").ok());
  const std::string busy = "while a call is under way";
  EXPECT_THAT(session->submit("grad_step").message(), HasSubstr(busy));
  EXPECT_THAT(fill().message(), HasSubstr("inputs were filled " + busy));
  EXPECT_THAT(session->gather("grad:table.bias").status().message(),
              HasSubstr(busy));
  EXPECT_THAT(session->save("nowhere", {}).message(), HasSubstr(busy));
  EXPECT_FALSE(session->initialize(8).ok());
  EXPECT_TRUE(session->collect().ok());
  EXPECT_TRUE(session->canGoOn());
  EXPECT_TRUE(session->run("grad_step").ok());
}

TEST_F(SessionTest, SavesTheSameByOneThreadAndByAll) {
  open({"train_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  const std::string saved = folder("saved"), alone = folder("alone");
  ASSERT_TRUE(session->save(saved, stateOf(3)).ok());
  ASSERT_TRUE(session->save(alone, stateOf(3), {.isAlone = true}).ok());
  for (const char *name :
       {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_EQ(bytesOf(saved + "/" + name) == bytesOf(alone + "/" + name), true)
        << name;
  // The loaded buffers are the saved ones; all else is as at the beginning.
  std::vector<float> table = *session->gather("table.weight");
  ASSERT_TRUE(session->initialize(8).ok());
  ASSERT_NE(*session->gather("table.weight"), table);
  auto checkpoint = Checkpoint::open(saved);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  Status loaded = session->load(**checkpoint);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ(*session->gather("table.weight"), table);
}

TEST_F(SessionTest, LoadsWeightsThatWereMatched) {
  open({"train_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  const std::string saved = folder("saved"), weights = folder("weights");
  ASSERT_TRUE(session->save(saved, stateOf(3)).ok());
  std::filesystem::create_directories(weights);
  std::filesystem::copy_file(saved + "/model.safetensors",
                             weights + "/model.safetensors");
  std::vector<float> table = *session->gather("table.weight");
  auto checkpoint = Checkpoint::open(weights);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE((*checkpoint)->hasWeightsAlone());
  // None of its tensors is known to be a parameter yet.
  EXPECT_THAT(session->loadParameters(**checkpoint, 8).message(),
              HasSubstr("findParameters()"));
  const ExpectedModel expected = expectedModel(session->manifest());
  EXPECT_THAT((*checkpoint)->findModel(expected).message(),
              HasSubstr("--load-weights " + weights));
  Status found = (*checkpoint)->findParameters(expected);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_THAT(session->load(**checkpoint).message(),
              HasSubstr("no optimizer state"));
  Status loaded = session->loadParameters(**checkpoint, 8);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ(*session->gather("table.weight"), table);
}

// What a save was begun with is saved, whatever becomes of it meanwhile.
TEST_F(SessionTest, SavesASnapshotBehindSteps) {
  open({"train_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  const std::string saved = folder("saved"), behind = folder("behind");
  ASSERT_TRUE(session->save(saved, stateOf(3)).ok());
  auto reserved = session->reserveSnapshot(behind, /*mustFit=*/false);
  ASSERT_TRUE(reserved.ok()) << reserved.status().message();
  EXPECT_TRUE(*reserved);
  EXPECT_FALSE(std::filesystem::exists(behind));
  EXPECT_EQ(session->largestRankMemory().snapshot, 3 * 256 * 257 * 4);
  for (bool polls : {false, true}) {
    ASSERT_TRUE(session->initialize(7).ok());
    ASSERT_TRUE(session->beginSave(behind, stateOf(3)).ok());
    EXPECT_TRUE(session->isSaving());
    ASSERT_TRUE(session->initialize(8).ok());
    StatusOr<bool> over = false;
    while (polls && over.ok() && !*over)
      over = session->pollSave();
    ASSERT_TRUE(over.ok()) << over.status().message();
    ASSERT_TRUE(session->finishSave().ok());
    EXPECT_FALSE(session->isSaving());
    for (const char *name :
         {"model.safetensors", "optimizer.safetensors", "state.json"})
      EXPECT_EQ(bytesOf(saved + "/" + name) == bytesOf(behind + "/" + name),
                true)
          << name;
  }
  // The next waits for the one before.
  ASSERT_TRUE(session->beginSave(behind, stateOf(4)).ok());
  ASSERT_TRUE(session->beginSave(behind, stateOf(5)).ok());
  ASSERT_TRUE(session->save(behind, stateOf(6)).ok());
  EXPECT_FALSE(session->isSaving());
  EXPECT_EQ((*Checkpoint::open(behind))->state().step, 6);
  // One that is given up leaves the one before, and nothing else.
  ASSERT_TRUE(session->beginSave(behind, stateOf(7)).ok());
  session.reset();
  EXPECT_EQ((*Checkpoint::open(behind))->state().step, 6);
  const std::string hidden =
      "." + std::filesystem::path(behind).filename().string();
  for (const auto &entry : std::filesystem::directory_iterator(
           std::filesystem::path(behind).parent_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(hidden));
}

TEST_F(SessionTest, AFailureBehindStepsCostsTheNewCheckpointAlone) {
  open({"train_step"});
  const std::string saved = folder("saved");
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(session->save(saved, stateOf(3)).ok());
  setScalars();
  session->setScalar("beta2_power", 0.5f);
  session->setScalar("lr", std::numeric_limits<float>::infinity());
  for (bool polls : {false, true}) {
    ASSERT_TRUE(fill().ok());
    ASSERT_TRUE(session->run("train_step").ok());
    ASSERT_TRUE(session->beginSave(saved, stateOf(4)).ok());
    StatusOr<bool> over = false;
    while (polls && over.ok() && !*over)
      over = session->pollSave();
    const Status failure = polls ? over.status() : session->finishSave();
    EXPECT_THAT(failure.message(), HasSubstr("that is not finite"));
    EXPECT_FALSE(session->isSaving());
    EXPECT_TRUE(session->finishSave().ok());
    EXPECT_EQ((*Checkpoint::open(saved))->state().step, 3);
  }
}

TEST_F(SessionTest, HoldsWhatItsFunctionsUse) {
  open({"eval_step"});
  RankMemory memory = session->largestRankMemory();
  // 128 rows of the table and the bias, two rows of tokens and of targets, and
  // two numbers.
  EXPECT_EQ(memory.parameters, (128 * 256 + 256) * 4);
  EXPECT_EQ(memory.state, 0);
  EXPECT_EQ(memory.gradients, 0);
  EXPECT_EQ(memory.inputs, 2 * (2 * 8 * 4) + 2 * 64);
  open({"train_step"});
  EXPECT_EQ(session->largestRankMemory().state, 2 * memory.parameters);
  open({"grad_step"});
  EXPECT_EQ(session->largestRankMemory().gradients, memory.parameters);
}

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

TEST_F(SessionTest, ReadsWhatWasPreparedOfParametersAsTheyAre) {
  open({"eval_step", "train_step", "prepare"}, {"eval"}, {},
       OPTIMUS_TOY_PREPARE);
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill().ok());
  setScalars();
  session->setScalar("beta2_power", 0.5f);
  auto eval = [&](const char *message = "") -> float {
    auto outputs = session->run("eval_step");
    EXPECT_EQ(outputs.status().ok(), !*message) << outputs.status().message();
    EXPECT_THAT(outputs.status().message(), HasSubstr(message));
    EXPECT_TRUE(session->canGoOn());
    return outputs.ok() ? outputs->lossSum() : 0;
  };
  const char *stale =
      "eval_step reads \"copy:table.weight\", which an entry of "
      "kind prepare must make of the parameter as it is now";
  eval(stale);
  ASSERT_TRUE(session->run("prepare").ok());
  const float first = eval();
  EXPECT_EQ(eval(), first);
  // A step changes the parameter, and so does a new beginning.
  ASSERT_TRUE(session->run("train_step").ok());
  eval(stale);
  auto outputs = runSequence("eval", 2, 2);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  ASSERT_TRUE(fill().ok());
  EXPECT_NE(eval(), first);
  ASSERT_TRUE(session->initialize(7).ok());
  eval(stale);
  ASSERT_TRUE(session->run("prepare").ok());
  EXPECT_EQ(eval(), first);
  ASSERT_TRUE(session->perturb(1, 8).ok());
  eval(stale);
  // It counts as its parameter does.
  RankMemory memory = session->largestRankMemory();
  EXPECT_EQ(memory.parameters, (2 * 128 * 256 + 256) * 4);
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

TEST_F(SessionTest, SequencesMustBeThere) {
  open({"eval_step"});
  SessionOptions options;
  options.sequences = {"decode"};
  auto made = Session::create(*library, world, options);
  EXPECT_THAT(made.status().message(), HasSubstr("has no sequence decode"));
}
