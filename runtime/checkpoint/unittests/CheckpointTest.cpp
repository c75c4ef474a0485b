//===- CheckpointTest.cpp - Saving and loading a model in training --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include "optimus-support/Hash.h"
#include "optimus-support/Initialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <sys/resource.h>

using namespace optrt;
using namespace optimus_support;

namespace {
class Save : public CheckpointTest {};
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
  Status same = (*checkpoint)->checkModel(expected());
  EXPECT_TRUE(same.ok()) << same.message();
  EXPECT_TRUE((*checkpoint)->notesOn(expected()).empty());
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
  ExpectedModel model = expected();
  model.params = {{"w", shape}};
  model.states = {};
  EXPECT_TRUE((*checkpoint)->checkModel(model).ok());
  model.states = {{"exp_avg.w", shape}};
  EXPECT_TRUE((*checkpoint)->checkParameters(model).ok());
  Status lacking = (*checkpoint)->checkModel(model);
  EXPECT_EQ(lacking.code(), StatusCode::DataLoss);
  EXPECT_NE(lacking.message().find("lacks exp_avg.w"), std::string::npos);
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
              (*checkpoint)->readShard(tensor.name, layout, to, rank, 0, local);
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

/// Each check refuses with one message that has all of `parts`.
static void expectRefused(const Checkpoint &checkpoint,
                          const ExpectedModel &model,
                          const std::vector<std::string> &parts) {
  for (Status status :
       {checkpoint.checkParameters(model), checkpoint.checkModel(model)}) {
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    for (const std::string &part : parts)
      EXPECT_NE(status.message().find(part), std::string::npos)
          << part << " in: " << status.message();
  }
}

TEST_F(Model, DifferencesAreNamed) {
  ASSERT_TRUE(save(dir, 1).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  auto expectOther = [&](std::vector<TensorInfo> params,
                         const std::string &message) {
    ExpectedModel other = expected();
    other.params = params;
    // With the same hash, the same difference is damage.
    EXPECT_EQ((*opened)->checkModel(other).code(), StatusCode::DataLoss);
    other.hash = "0123456789abcdef";
    expectRefused(**opened, other, {"is of another model: " + message});
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
  ExpectedModel reordered = expected();
  reordered.hash = "0123456789abcdef";
  expectRefused(**opened, reordered,
                {"the parameters are the same, but their order is not"});
  EXPECT_EQ((*opened)->readTensor("h.1.w").status().code(),
            StatusCode::DataLoss);
}

TEST_F(Model, AnotherFunctionIsRefused) {
  ASSERT_TRUE(save(dir, 1).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ExpectedModel other = expected();
  other.hash = "0123456789abcdef";
  other.record.function->hash = "1111111111111111";
  // Nothing that has a name.
  expectRefused(**opened, other,
                {"what computes the loss: checkpoint has hash "
                 "9f86d081884c7d65, library 1111111111111111"});
  other.record.function->facts["heads"] = {"4", "--heads"};
  expectRefused(**opened, other,
                {"is of another model: heads: checkpoint 6, library 4; compile "
                 "a program built with --heads 6"});
  other.record.function->facts["mask"] = {"\"bidirectional\"", ""};
  other.record.function->facts["rope_theta"] = {"10000.0", ""};
  // What it takes to agree is the checkpoint's.
  expectRefused(**opened, other,
                {"heads: checkpoint 6, library 4; mask: checkpoint causal, "
                 "library bidirectional; rope_theta: checkpoint none, library "
                 "10000.0; compile a program built with --heads 6"});
}

TEST_F(Model, WhatChangesNoFunctionIsSaid) {
  ASSERT_TRUE(save(dir, 1).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ExpectedModel other = expected();
  other.record.compilation["batch"].value = "8";
  other.record.compilation["dropout"].value = "0.1";
  EXPECT_TRUE((*opened)->checkModel(other).ok());
  EXPECT_EQ((*opened)->notesOn(other),
            std::vector<std::string>{"the library is compiled otherwise: batch "
                                     "8 (was 16), dropout 0.1 (was none)"});
}

TEST_F(Model, AnotherOptimizersParametersCanBeLoaded) {
  ASSERT_TRUE(save(dir, 1).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ExpectedModel other = expected();
  other.record.optimizer = "lamb";
  EXPECT_TRUE((*opened)->checkParameters(other).ok());
  Status status = (*opened)->checkModel(other);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  for (const char *part : {"has the state of the optimizer adamw",
                           "compiled for lamb", "--load-weights "})
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
}

// Earlier versions kept one hash, of parameters and optimizer.
TEST_F(Model, EarlierVersionsCheckpointsAreComparedAsFarAsTheyGo) {
  auto writer = CheckpointWriter::create(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  std::vector<int64_t> shape = {3, 2};
  std::vector<float> values(6, 1.0f);
  ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
  ASSERT_TRUE((*writer)->append("w", values).ok());
  TrainingState state = stateOf(0);
  state.model.reset();
  state.modelHash = hashToHex(hash64("w:3:2\nsgd"));
  ASSERT_TRUE((*writer)->commit(state).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ExpectedModel model = expected();
  model.params = {{"w", shape}};
  model.states = {};
  model.record.optimizer = "sgd";
  EXPECT_TRUE((*opened)->checkModel(model).ok());
  std::vector<std::string> notes = (*opened)->notesOn(model);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("only names and shapes of parameters were compared"),
            std::string::npos);
  model.record.optimizer = "adamw";
  EXPECT_TRUE((*opened)->checkParameters(model).ok());
  Status status = (*opened)->checkModel(model);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("--load-weights"), std::string::npos)
      << status.message();
  model.params[0].shape = {2, 3};
  expectRefused(**opened, model, {"parameter w has shape [3, 2]"});
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
