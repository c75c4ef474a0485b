//===- CheckpointTest.cpp - Saving and loading a model in training --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include "optimus-support/Initialize.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <set>
#include <sys/resource.h>
#include <thread>

using namespace optrt;
using namespace optimus_support;
using nlohmann::json;

namespace {
class Save : public CheckpointTest {};
class Layout : public CheckpointTest {};
class Destination : public CheckpointTest {};
class Model : public CheckpointTest {};
} // namespace

TEST_F(Save, RoundTrips) {
  Status saved = save(dir, 7);
  ASSERT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(list(dir),
            (std::vector<std::string>{"model.safetensors",
                                      "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expectWhole(**checkpoint);
  EXPECT_EQ((*checkpoint)->state(), stateOf(7));
  std::span<const TensorInfo> found =
      (*checkpoint)->tensors(CheckpointFile::Model);
  EXPECT_EQ(std::vector<TensorInfo>(found.begin(), found.end()), params());
  EXPECT_EQ((*checkpoint)->tensors(CheckpointFile::Optimizer).size(), 6u);
  Status same =
      (*checkpoint)->checkModel("60303ae22b998861", params(), moments());
  EXPECT_TRUE(same.ok()) << same.message();
}

TEST_F(Save, ReplacesTheOldCheckpoint) {
  for (bool useExchange : {true, false}) {
    CheckpointWriterOptions options;
    options.useExchange = useExchange;
    for (int64_t step : {1, 2, 3}) {
      Status saved = save(dir, step, options);
      ASSERT_TRUE(saved.ok()) << saved.message();
      auto checkpoint = Checkpoint::open(dir);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
      EXPECT_EQ((*checkpoint)->state().step, step);
      expectWhole(**checkpoint);
      EXPECT_EQ(list(root), std::vector<std::string>{"run"});
    }
  }
}

TEST_F(Save, WithoutMomentsHasNoOptimizerFile) {
  auto writer = CheckpointWriter::create(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  std::vector<int64_t> shape = {3};
  std::vector<float> values = {1, 2, 3};
  ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
  ASSERT_TRUE((*writer)->append("w", values).ok());
  ASSERT_TRUE((*writer)->commit(stateOf(0)).ok());
  EXPECT_EQ(list(dir),
            (std::vector<std::string>{"model.safetensors", "state.json"}));
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  std::vector<TensorInfo> params = {{"w", shape}};
  std::string hash = stateOf(0).modelHash;
  EXPECT_TRUE((*checkpoint)->checkModel(hash, params, {}).ok());
  std::vector<TensorInfo> moment = {{"exp_avg.w", shape}};
  Status lacking = (*checkpoint)->checkModel(hash, params, moment);
  EXPECT_EQ(lacking.code(), StatusCode::DataLoss);
  EXPECT_NE(lacking.message().find("lacks exp_avg.w"), std::string::npos);
}

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
    "weight_decay": 0.1, "clip": "none", "beta1": 0.9, "beta2": 0.95,
    "epsilon": 1e-8, "momentum": 0.9, "microbatches": 1})"));
  EXPECT_EQ(state["files"]["model.safetensors"]["size"],
            std::filesystem::file_size(dir + "/model.safetensors"));
}

TEST_F(Layout, StateIsReadAsItWasWritten) {
  ASSERT_TRUE(save(dir, 3).ok());
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state(), stateOf(3));
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

/// The shards of a tensor on a mesh, padded as little as the extents allow.
static ShardLayout layOut(const Mesh &mesh, std::vector<int64_t> shape,
                          std::vector<std::vector<int>> axes) {
  ShardLayout layout{shape, shape, axes};
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t parts = mesh.combinedSize(axes[d]);
    layout.localShape[d] = (shape[d] + parts - 1) / parts;
  }
  return layout;
}

// Written from the shards of one mesh, a checkpoint is read into those of any
// other, its bytes always the same.
TEST_F(Save, IsTheSameFromEveryMeshToEveryMesh) {
  std::vector<Mesh> meshes;
  for (auto [rows, cols] :
       {std::pair(1, 1), {2, 2}, {2, 3}, {3, 2}, {1, 4}, {4, 1}})
    meshes.push_back(Mesh({{"row", rows}, {"col", cols}}));
  // 5 and 7 heads' extents are uneven on 2 and 3; a shape of three dimensions
  // is saved under its Hugging Face shape of two.
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape, hfShape;
    std::vector<std::vector<int>> axes;
  };
  std::vector<Tensor> tensors = {
      {"qkv", {10, 3, 7, 4}, {10, 84}, {{0}, {}, {1}, {}}},
      {"down", {13, 5}, {13, 5}, {{1}, {0}}},
      {"bias", {5}, {5}, {{1}}},
      {"replicated", {3, 3}, {3, 3}, {{}, {}}}};

  std::string first;
  for (const Mesh &from : meshes) {
    SCOPED_TRACE("from " + from.toString());
    auto writer = CheckpointWriter::create(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const Tensor &tensor : tensors)
      ASSERT_TRUE(
          (*writer)
              ->addTensor(CheckpointFile::Model, tensor.name, tensor.hfShape)
              .ok());
    for (const Tensor &tensor : tensors) {
      ShardLayout layout = layOut(from, tensor.shape, tensor.axes);
      std::vector<float> whole(layout.numElements());
      for (int64_t rank = 0; rank < from.numRanks(); ++rank) {
        if (!layout.isCanonicalOwner(from, rank))
          continue;
        std::vector<float> local(layout.numLocalElements());
        initializeShard({InitKind::Normal, 1.0, 3}, 5, layout, from, rank,
                        local.data());
        layout.place(from, rank, local.data(), whole.data());
      }
      // In pieces that end anywhere.
      std::span<const float> rest(whole);
      for (size_t piece = 1; !rest.empty(); piece += 3) {
        size_t count = std::min(piece, rest.size());
        Status written = (*writer)->append(tensor.name, rest.first(count));
        ASSERT_TRUE(written.ok()) << written.message();
        rest = rest.subspan(count);
      }
    }
    Status committed = (*writer)->commit(stateOf(1));
    ASSERT_TRUE(committed.ok()) << committed.message();
    std::string bytes = readFile(dir + "/model.safetensors");
    first = first.empty() ? bytes : first;
    EXPECT_EQ(bytes == first, true);

    auto checkpoint = Checkpoint::open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    for (const Mesh &to : meshes)
      for (const Tensor &tensor : tensors) {
        ShardLayout layout = layOut(to, tensor.shape, tensor.axes);
        for (int64_t rank = 0; rank < to.numRanks(); ++rank) {
          std::vector<float> local(layout.numLocalElements(), -1.0f);
          std::vector<float> expected = local;
          Status read =
              (*checkpoint)
                  ->readShard(tensor.name, layout, to, rank, local.data());
          ASSERT_TRUE(read.ok()) << read.message();
          initializeShard({InitKind::Normal, 1.0, 3}, 5, layout, to, rank,
                          expected.data());
          ASSERT_EQ(local, expected) << tensor.name << " on " << to.toString();
        }
      }
  }
}

TEST_F(Save, MistakesOfTheCallerAreInternal) {
  ASSERT_TRUE(save(dir, 1).ok());
  std::vector<float> values(61);
  std::vector<int64_t> shape = {2}, empty = {0};
  {
    auto writer = declareAll(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    auto expectInternal = [](Status status, const std::string &message) {
      EXPECT_EQ(status.code(), StatusCode::Internal);
      EXPECT_NE(status.message().find(message), std::string::npos)
          << status.message();
    };
    CheckpointWriter &w = **writer;
    expectInternal(w.addTensor(CheckpointFile::Model, "ln_f.bias", shape),
                   "two tensors called ln_f.bias");
    expectInternal(w.addTensor(CheckpointFile::Model, "none", empty),
                   "has no elements");
    std::span<const float> some(values);
    expectInternal(w.append("other", some.first(1)), "not declared");
    expectInternal(w.append("ln_f.bias", some.first(7)),
                   "ln_f.bias is written to a checkpoint where wte.weight "
                   "comes next");
    expectInternal(w.append("wte.weight", some.first(61)),
                   "61 elements from 0 on of the tensor wte.weight, which has "
                   "60");
    expectInternal(w.addTensor(CheckpointFile::Model, "late", shape),
                   "after writing has begun");
    for (const auto &[file, info] : allTensors())
      if (info.name != "ln_f.bias") {
        ASSERT_TRUE(
            w.append(info.name, some.first(numElements(info.shape))).ok());
      }
    expectInternal(w.append("h.0.w", some.first(1)),
                   "h.0.w is written to a checkpoint where ln_f.bias comes "
                   "next");
    ASSERT_TRUE(w.append("ln_f.bias", some.first(6)).ok());
    expectInternal(w.append("ln_f.bias", some.first(2)),
                   "2 elements from 6 on of the tensor ln_f.bias, which has 7");
    expectInternal(w.commit(stateOf(2)),
                   "of the tensor ln_f.bias, 6 elements were written to the "
                   "checkpoint, not 7");
  }
  // The old checkpoint is untouched, and nothing is left beside it.
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
}

// A limit on files' sizes stands for a disk that is full.
TEST_F(Save, AFullDiskIsOneMessageAndLeavesNothing) {
  ASSERT_TRUE(save(dir, 1).ok());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {500, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status saved = save(dir, 2);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(saved.code(), StatusCode::Unavailable);
  EXPECT_NE(saved.message().find("cannot reserve"), std::string::npos)
      << saved.message();
  EXPECT_NE(saved.message().find("model.safetensors': File too large"),
            std::string::npos)
      << saved.message();
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
}

// As above, but it fills up after its space was promised.
TEST_F(Save, AWriteThatFailsIsFinal) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  std::vector<float> values(60);
  ASSERT_TRUE((*writer)->append("wte.weight", std::span(values).first(1)).ok());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status failed = (*writer)->append("wte.weight", std::span(values).first(1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(failed.code(), StatusCode::Unavailable);
  EXPECT_NE(failed.message().find("cannot write "), std::string::npos)
      << failed.message();
  for (Status later :
       {(*writer)->append("wte.weight", values), (*writer)->commit(stateOf(1))})
    EXPECT_EQ(later.message(), failed.message());
}

TEST_F(Destination, MayBeNewDeepEmptyOrLinked) {
  ASSERT_TRUE(save(root + "/a/b/c/", 1).ok());
  EXPECT_TRUE(Checkpoint::open(root + "/a/b/c/").ok());
  std::filesystem::create_directory(root + "/empty");
  ASSERT_TRUE(save(root + "/empty", 2).ok());
  EXPECT_TRUE(Checkpoint::open(root + "/empty").ok());
  std::filesystem::create_directory_symlink(root + "/empty", root + "/link");
  ASSERT_TRUE(save(root + "/link", 3).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(root + "/link"));
  auto checkpoint = Checkpoint::open(root + "/empty");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 3);
}

TEST_F(Destination, IsNotReplacedUnlessItIsACheckpoint) {
  auto expectRefused = [&](const std::string &path,
                           const std::string &message) {
    auto writer = CheckpointWriter::create(path);
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(writer.status().message().find(message), std::string::npos)
        << writer.status().message();
  };
  writeFile(root + "/file", "text");
  expectRefused(root + "/file", "exists and is not a folder");
  expectRefused(root + "/file/run", root + "/file");
  expectRefused("", "does not name a folder");
  expectRefused("/", "does not name a folder");

  ASSERT_TRUE(save(dir, 1).ok());
  writeFile(dir + "/notes.md", "mine");
  expectRefused(dir, "it contains notes.md");
  std::filesystem::create_directory(root + "/downloaded");
  writeFile(root + "/downloaded/model.safetensors", "weights");
  expectRefused(root + "/downloaded", "no state.json");
  // All is still there.
  EXPECT_EQ(readFile(dir + "/notes.md"), "mine");
  EXPECT_EQ(readFile(root + "/downloaded/model.safetensors"), "weights");
  EXPECT_EQ(readFile(root + "/file"), "text");
  EXPECT_TRUE(Checkpoint::open(dir).ok());
}

TEST_F(Destination, IsCheckedAgainWhenItIsReplaced) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const auto &[file, info] : allTensors())
    ASSERT_TRUE(
        (*writer)
            ->append(info.name, std::vector<float>(numElements(info.shape)))
            .ok());
  std::filesystem::create_directory(dir);
  writeFile(dir + "/notes.md", "mine");
  Status committed = (*writer)->commit(stateOf(1));
  EXPECT_EQ(committed.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(readFile(dir + "/notes.md"), "mine");
}

TEST_F(Destination, LeftoversOfKilledWritersAreRemoved) {
  ASSERT_TRUE(save(dir, 1).ok());
  std::string dead = root + "/.run.optimus-tmp-1-0";
  std::filesystem::create_directory(dead);
  writeFile(dead + "/model.safetensors", "half");
  // Another run's, and a user's file of a similar name, are none of ours.
  std::filesystem::create_directory(root + "/.other.optimus-tmp-1-0");
  ASSERT_TRUE(save(dir, 2).ok());
  EXPECT_EQ(list(root),
            (std::vector<std::string>{".other.optimus-tmp-1-0", "run"}));
}

TEST_F(Destination, AnotherWritersFolderIsLeftAlone) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const auto &[file, info] : allTensors()) {
    std::vector<float> values(numElements(info.shape));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = valueOf(info.name, 2, i);
    Status written = (*writer)->append(info.name, values);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  ASSERT_TRUE(save(dir, 1).ok());
  ASSERT_TRUE((*writer)->commit(stateOf(2)).ok());
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 2);
  expectWhole(**checkpoint);
}

// A writer killed between the two renames of a file system without exchange.
TEST_F(Destination, ReadersAndWritersFindTheOldCheckpoint) {
  ASSERT_TRUE(save(dir, 1).ok());
  std::filesystem::rename(dir, root + "/.run.optimus-old");
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
  expectWhole(**checkpoint);
  {
    // A writer that gives up still leaves a checkpoint.
    auto writer = CheckpointWriter::create(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
  }
  checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
  // Killed after the second rename: the old one goes.
  std::filesystem::copy(dir, root + "/.run.optimus-old");
  ASSERT_TRUE(save(dir, 2).ok());
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
}

// Somebody evaluates the checkpoint of a run that goes on.
TEST_F(Destination, ReadersFindOneCheckpointWhileWritersReplaceIt) {
  for (bool useExchange : {true, false}) {
    CheckpointWriterOptions options;
    options.useExchange = useExchange;
    ASSERT_TRUE(save(dir, 1, options).ok());
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      for (int64_t step = 2; !stop; ++step) {
        // Sharded and not, so that files come and go.
        options.shardLimitBytes = step % 4 < 2 ? 400 : 5'000'000'000;
        Status saved = save(dir, step, options);
        EXPECT_TRUE(saved.ok()) << saved.message();
      }
    });
    int64_t last = 0;
    std::set<int64_t> steps;
    // However slow the disk is to take what the writer syncs.
    for (int i = 0; i < 2000 || steps.size() <= 5; ++i) {
      auto checkpoint = Checkpoint::open(dir);
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
      if (!checkpoint.ok())
        break;
      EXPECT_GE((*checkpoint)->state().step, last);
      last = (*checkpoint)->state().step;
      steps.insert(last);
      expectWhole(**checkpoint);
      EXPECT_TRUE((*checkpoint)->checkUnchanged().ok());
    }
    stop = true;
    writer.join();
  }
}

TEST_F(Model, DifferencesAreNamed) {
  ASSERT_TRUE(save(dir, 1).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  auto expectOther = [&](std::vector<TensorInfo> expected,
                         const std::string &message) {
    Status status =
        (*opened)->checkModel("0123456789abcdef", expected, moments());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find("is of another model (hash "
                                    "60303ae22b998861, expected "
                                    "0123456789abcdef): " +
                                    message),
              std::string::npos)
        << status.message();
    // With the same hash, the same difference is damage.
    status = (*opened)->checkModel("60303ae22b998861", expected, moments());
    if (expected != params()) {
      EXPECT_EQ(status.code(), StatusCode::DataLoss);
    }
  };
  std::vector<TensorInfo> other = params();
  other[1].shape = {5, 10};
  expectOther(other,
              "parameter h.0.w has shape [5, 9], the model's is [5, 10]");
  other = params();
  other.push_back({"h.1.w", {5, 9}});
  expectOther(other, "it has no parameter h.1.w");
  other = params();
  other.pop_back();
  expectOther(other, "it has a parameter ln_f.bias, which the model does not");
  expectOther(params(), "the parameters are the same, but their order or the "
                        "optimizer is not");
  EXPECT_EQ((*opened)->readTensor("h.1.w").status().code(),
            StatusCode::DataLoss);
}

TEST_F(Model, ThatIsNotThereIsTheUsersFault) {
  auto expectNone = [](const std::string &path, const std::string &message) {
    auto checkpoint = Checkpoint::open(path);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(checkpoint.status().message().find(message), std::string::npos)
        << checkpoint.status().message();
  };
  expectNone(dir, "there is no checkpoint at");
  expectNone("", "there is no checkpoint at");
  expectNone(root, "has no state.json");
  writeFile(root + "/file", "text");
  expectNone(root + "/file", "expected a checkpoint's folder");
}

TEST_F(Save, WhatIsNotFiniteIsNotSaved) {
  ASSERT_TRUE(save(dir, 1).ok());
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    -std::numeric_limits<float>::infinity()}) {
    auto writer = CheckpointWriter::create(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    std::vector<int64_t> shape = {5000};
    std::vector<float> values(5000, 1.0f);
    ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
    ASSERT_TRUE((*writer)->append("w", std::span(values).first(10)).ok());
    values[4321] = bad;
    Status written = (*writer)->append("w", std::span(values).subspan(10));
    EXPECT_EQ(written.code(), StatusCode::InvalidArgument);
    EXPECT_NE(written.message().find("the tensor w has an element that is not "
                                     "finite"),
              std::string::npos)
        << written.message();
    EXPECT_FALSE((*writer)->commit(stateOf(2)).ok());
  }
  // What was there is there, and nothing beside it.
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
  expectWhole(**checkpoint);
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
}
