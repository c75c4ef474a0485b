//===- CheckpointLayoutTest.cpp - What the files of a checkpoint look like ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"
#include "checkpoint/CheckpointState.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>

using namespace optrt;
using namespace optimus_support;
using nlohmann::json;

namespace {
class Layout : public CheckpointTest {};
} // namespace

// What the format's description asks, read without our reader.
TEST_F(Layout, IsSafetensors) {
  ASSERT_TRUE(save(dir, 3).ok());
  std::string bytes = readFile(dir + "/model.safetensors");
  uint64_t length;
  ASSERT_GE(bytes.size(), sizeof(length));
  std::memcpy(&length, bytes.data(), sizeof(length));
  ASSERT_EQ((8 + length) % 64, 0u);
  json header = json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header["wte.weight"], json::parse(R"({
    "dtype": "F32", "shape": [12, 5], "data_offsets": [0, 240]})"));
  EXPECT_EQ(header["ln_f.bias"], json::parse(R"({
    "dtype": "F32", "shape": [7], "data_offsets": [420, 448]})"));
  ASSERT_EQ(bytes.size(), 8 + length + 448);
  float value;
  std::memcpy(&value, &bytes[8 + length + 420 + 4 * 6], sizeof(value));
  EXPECT_EQ(value, valueOf("ln_f.bias", 3, 6));
}

TEST_F(Layout, StateIsReadableJson) {
  ASSERT_TRUE(save(dir, 3).ok());
  json state = json::parse(readFile(dir + "/state.json"));
  EXPECT_EQ(state["step"], 3);
  EXPECT_EQ(state["seed"], 0xFFFFFFFFFFFFFFF5u);
  EXPECT_EQ(state["data_position"], 48);
  EXPECT_EQ(state["order"], "shuffled");
  EXPECT_EQ(state["model_hash"], "60303ae22b998861");
  EXPECT_EQ(state["hyperparameters"], json::parse(R"({
    "steps": 100, "lr": 0.0003, "schedule": "cosine", "warmup": 5,
    "min_lr": "none", "decay_steps": 0, "weight_decay": 0.1, "clip": "none", "beta1": 0.9, "beta2": 0.95,
    "epsilon": 1e-8, "momentum": 0.9, "microbatches": 1})"));
  EXPECT_EQ(state["data"], json::parse(R"({
    "file": "corpus.bin", "token_type": "u16", "tokens": 4000,
    "sample": "0000000000000abc", "contents": "123456789abcdef0",
    "sequence": 32, "batch": 4, "position": 1536,
    "tokenizer": "0123456789abcdef"})"));
  EXPECT_EQ(state["best"],
            json::parse(R"({"loss": 1.5, "step": 1, "evaluations_since": 2})"));
  EXPECT_EQ(state["files"]["model.safetensors"]["size"],
            std::filesystem::file_size(dir + "/model.safetensors"));
}

TEST_F(Layout, StateIsReadAsItWasWritten) {
  // With a hash of all data, and without.
  for (int64_t step : {3, 4}) {
    ASSERT_TRUE(save(dir, step).ok());
    auto checkpoint = Checkpoint::open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->state(), stateOf(step));
  }
}

TEST_F(Layout, NamesOfDataMayBeAnyBytes) {
  TrainingState state = stateOf(3);
  state.data->file = "corpus\xff\n.bin";
  auto parsed = parseState(formatState(state, {{"model.safetensors", 8, 1}}),
                           "state.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->state.data->file, "corpus\xef\xbf\xbd\n.bin");
}

TEST_F(Layout, StatesOfEarlierVersionsDoNotSayWhatTheDataWas) {
  TrainingState state = stateOf(3);
  state.data.reset();
  auto parsed = parseState(formatState(state, {{"model.safetensors", 8, 1}}),
                           "state.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->state, state);
}

TEST_F(Layout, ShardsLikeHuggingFace) {
  // 240, 180 and 28 bytes: the first two would be 420.
  CheckpointWriterOptions options;
  options.shardLimitBytes = 400;
  Status saved = save(dir, 2, options);
  ASSERT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(list(dir),
            (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json",
                                      "optimizer.safetensors", "state.json"}));
  json index = json::parse(readFile(dir + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 448);
  EXPECT_EQ(index["weight_map"], json::parse(R"({
    "wte.weight": "model-00001-of-00002.safetensors",
    "h.0.w": "model-00002-of-00002.safetensors",
    "ln_f.bias": "model-00002-of-00002.safetensors"})"));
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expectWhole(**checkpoint);

  // A tensor beyond the limit has a file of its own; then back to one file.
  options.shardLimitBytes = 8;
  ASSERT_TRUE(save(dir, 4, options).ok());
  EXPECT_EQ(list(dir).size(), 6u);
  checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expectWhole(**checkpoint);
  ASSERT_TRUE(save(dir, 5).ok());
  EXPECT_EQ(list(dir).size(), 3u);
}
