//===- SessionTest.cpp - What a session fills and reads -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SessionFixture.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <limits>

using namespace optrt;
using testing::HasSubstr;

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
