//===- CheckpointTest.cpp - Saving and loading a model in training --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include "optimus-support/Hash.h"
#include "optimus-support/NewFile.h"

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
  Status same = (*checkpoint)->findModel(expected());
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
  ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
  ASSERT_TRUE(writeAll(**writer, valuesOf(1), stateOf(0)).ok());
  EXPECT_EQ(list(dir),
            (std::vector<std::string>{"model.safetensors", "state.json"}));
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ExpectedModel model = expected();
  model.params = {{"w", shape}};
  model.states = {};
  EXPECT_TRUE((*checkpoint)->findModel(model).ok());
  model.states = {{"exp_avg.w", shape}};
  EXPECT_TRUE((*checkpoint)->checkParameters(model).ok());
  Status lacking = (*checkpoint)->findModel(model);
  EXPECT_EQ(lacking.code(), StatusCode::DataLoss);
  EXPECT_NE(lacking.message().find("lacks exp_avg.w"), std::string::npos);
}

// Whoever writes which piece, and in whatever order, the files are the same.
TEST_F(Save, IsTheSameByOneWriterAndByMany) {
  CheckpointWriterOptions options;
  options.pieceBytes = 100; // some end within a tensor, some hold several
  options.shardLimitBytes = 400;
  ASSERT_TRUE(save(dir, 3, options).ok());
  for (size_t numWriters : {2, 3, 7}) {
    const std::string together = root + "/together";
    auto first = declareAll(together, options);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE((*first)->begin().ok());
    ASSERT_GT((*first)->pieces().size(), 10u);
    std::vector<std::unique_ptr<CheckpointWriter>> others;
    for (size_t i = 1; i < numWriters; ++i) {
      auto &other = *others.emplace_back(new CheckpointWriter(options));
      ASSERT_TRUE(declareAll(other).ok());
      ASSERT_TRUE(other.layOut().ok());
      ASSERT_TRUE(other.join(together, (*first)->folder()));
      const std::vector<size_t> pieces = piecesOf(other, i, numWriters);
      ASSERT_TRUE(writePieces(other, pieces, valuesOf(3), 5).ok());
      ASSERT_TRUE(other.sync().ok());
      for (size_t piece : pieces)
        (*first)->setChecksum(piece, other.checksum(piece));
    }
    ASSERT_TRUE(
        writePieces(**first, piecesOf(**first, 0, numWriters), valuesOf(3))
            .ok());
    Status committed = (*first)->commit(stateOf(3));
    ASSERT_TRUE(committed.ok()) << committed.message();
    ASSERT_EQ(list(together), list(dir));
    for (const std::string &name : list(dir))
      EXPECT_EQ(readFile(together + "/" + name) == readFile(dir + "/" + name),
                true)
          << name;
  }
  EXPECT_EQ(list(root), (std::vector<std::string>{"run", "together"}));
}

TEST_F(Save, IsNotJoinedWhereItsFolderIsNotSeen) {
  auto first = declareAll(dir);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE((*first)->begin().ok());
  CheckpointWriter other;
  ASSERT_TRUE(declareAll(other).ok());
  ASSERT_TRUE(other.layOut().ok());
  // Another machine's folder of the same name has no such folder beside it.
  std::filesystem::create_directory(root + "/elsewhere");
  EXPECT_FALSE(other.join(root + "/elsewhere/run", (*first)->folder()));
  EXPECT_FALSE(other.join(dir, ".run.optimus-tmp-0123456789abcdef"));
  EXPECT_FALSE(other.join("", (*first)->folder()));
  // Nor is it made.
  EXPECT_FALSE(other.join(root + "/none/run", (*first)->folder()));
  EXPECT_FALSE(std::filesystem::exists(root + "/none"));
  // Under another way to the same folder it is.
  std::filesystem::create_directory_symlink(root, root + "/elsewhere/link");
  EXPECT_TRUE(other.join(root + "/elsewhere/link/run", (*first)->folder()));
}

// Files of any number of tensors, pieces of any size: pieces are the data, once
// each, in order.
TEST(Pieces, MakeUpTheFiles) {
  for (size_t pieceBytes : {4, 64, 100, 1000})
    for (size_t dataBegin : {64, 128}) {
      CheckpointPieces pieces;
      size_t numTensors = 0;
      for (std::vector<int64_t> sizes :
           {std::vector<int64_t>{60}, {}, {1, 2, 3, 50}, {25, 25}}) {
        TensorFileExtent file{
            CheckpointFile::Model, dataBegin, dataBegin, pieceBytes, {}};
        for (int64_t size : sizes) {
          file.tensors.push_back({{std::to_string(numTensors++), {size}},
                                  file.bytes,
                                  size_t(size) * 4});
          file.bytes += size_t(size) * 4;
        }
        pieces.addFile(file);
      }
      ASSERT_EQ(pieces.numTensors(), 7u);
      std::vector<std::pair<size_t, int64_t>> found; // tensor, element
      for (size_t piece = 0; piece != pieces.size(); ++piece) {
        const PieceExtent extent = pieces[piece];
        ASSERT_GT(extent.bytes, 0u);
        const size_t end = extent.offset + extent.bytes;
        const TensorFileExtent &file = pieces.files()[extent.file];
        ASSERT_TRUE(extent.offset % pieceBytes == 0 ||
                    extent.offset == file.dataBegin);
        ASSERT_TRUE(end % pieceBytes == 0 || end == file.bytes);
        // At once, and one by one.
        std::vector<std::pair<size_t, int64_t>> whole, single;
        for (const TensorPart &part :
             pieces.parts(piece, 0, extent.numElements()))
          for (int64_t i = 0; i < part.count; ++i)
            whole.push_back({part.tensor, part.begin + i});
        for (size_t i = 0; i < extent.numElements(); ++i) {
          const TensorPart part = pieces.parts(piece, i, 1).at(0);
          single.push_back({part.tensor, part.begin});
        }
        ASSERT_EQ(whole, single);
        found.insert(found.end(), whole.begin(), whole.end());
      }
      std::vector<std::pair<size_t, int64_t>> expected;
      for (size_t tensor = 0; tensor != 7; ++tensor)
        for (int64_t i = 0; i < pieces.tensor(tensor).info.shape[0]; ++i)
          expected.push_back({tensor, i});
      ASSERT_EQ(found, expected) << pieceBytes;
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
    expectInternal(w.commit(stateOf(2)), "that was not begun");
    ASSERT_TRUE(w.begin().ok());
    expectInternal(w.addTensor(CheckpointFile::Model, "late", shape),
                   "after writing has begun");
    ASSERT_EQ(w.pieces().size(), 2u);
    ASSERT_TRUE(writePieces(w, {1}, valuesOf(2)).ok());
    // 60, 45 and 7 elements.
    PieceWriter piece(w, 0);
    expectInternal(piece.append(std::vector<float>(113)),
                   "113 elements to a piece that has room for 112");
    ASSERT_TRUE(piece.append(std::vector<float>(111)).ok());
    expectInternal(piece.append(std::vector<float>(2)),
                   "2 elements to a piece that has room for 1");
    expectInternal(w.commit(stateOf(2)),
                   "piece 0 of 2 was not written to the checkpoint: "
                   "wte.weight");
  }
  // The old checkpoint is untouched, and nothing is left beside it.
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
}

TEST_F(Save, ADiskThatIsTooSmallShowsBeforeAFileIsMade) {
  auto writer = CheckpointWriter::create(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const int64_t sixteenTebibytes[] = {int64_t(1) << 42};
  ASSERT_TRUE(
      (*writer)
          ->addTensor(CheckpointFile::Model, "wte.weight", sixteenTebibytes)
          .ok());
  Status begun = (*writer)->begin();
  EXPECT_EQ(begun.code(), StatusCode::Unavailable);
  EXPECT_NE(begun.message().find("bytes, and the disk has room for"),
            std::string::npos)
      << begun.message();
  writer->reset();
  EXPECT_EQ(list(root), std::vector<std::string>{});
}

// A limit on files' sizes stands for a disk that is full.
TEST_F(Save, AFullDiskIsOneMessageAndLeavesNothing) {
  ASSERT_TRUE(save(dir, 1).ok());
  const std::string refusal =
      optimus_support::NewFile::join(dir + "/state.json")->isInMemory()
          ? "cannot write"
          : "cannot reserve";
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {500, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  // For the headers, and for what follows them.
  Status saved = save(dir, 2);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok() && (*writer)->begin().ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<float> ones((*writer)->pieces()[0].numElements(), 1);
  Status reserved = PieceWriter(**writer, 0).append(ones);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ((*writer)->commit(stateOf(2)).message(), reserved.message());
  writer->reset();
  std::signal(SIGXFSZ, handler);
  for (const auto &[status, file] : {std::pair(saved, "optimizer.safetensors"),
                                     {reserved, "model.safetensors"}}) {
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_NE(status.message().find(refusal), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find(concat(file, "': File too large")),
              std::string::npos)
        << status.message();
  }
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
}

// As above, but it fills up after its space was promised.
TEST_F(Save, AWriteThatFailsIsFinal) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE((*writer)->begin().ok());
  std::vector<float> values(60);
  PieceWriter model(**writer, 0), optimizer(**writer, 1);
  ASSERT_TRUE(model.append(std::span(values).first(1)).ok());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status failed = model.append(std::span(values).first(1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(failed.code(), StatusCode::Unavailable);
  EXPECT_NE(failed.message().find("cannot write "), std::string::npos)
      << failed.message();
  for (Status later : {model.append(values), optimizer.append(values),
                       (*writer)->sync(), (*writer)->commit(stateOf(1))})
    EXPECT_EQ(later.message(), failed.message());
}

TEST_F(Save, WhatIsNotFiniteIsNotSaved) {
  ASSERT_TRUE(save(dir, 1).ok());
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    -std::numeric_limits<float>::infinity()}) {
    auto writer = CheckpointWriter::create(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    std::vector<int64_t> shape = {5000};
    ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "v", shape).ok());
    ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
    Status written = writeAll(
        **writer,
        [&](const std::string &name, int64_t i) {
          return name == "w" && i == 4321 ? bad : 1.0f;
        },
        stateOf(2));
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
static void expectRefused(Checkpoint &checkpoint, const ExpectedModel &model,
                          const std::vector<std::string> &parts) {
  for (Status status :
       {checkpoint.checkParameters(model), checkpoint.findModel(model)}) {
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
    EXPECT_EQ((*opened)->findModel(other).code(), StatusCode::DataLoss);
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
  EXPECT_TRUE((*opened)->findModel(other).ok());
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
  Status status = (*opened)->findModel(other);
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
  ASSERT_TRUE((*writer)->addTensor(CheckpointFile::Model, "w", shape).ok());
  TrainingState state = stateOf(0);
  state.model.reset();
  state.modelHash = hashToHex(hash64("w:3:2\nsgd"));
  ASSERT_TRUE(writeAll(**writer, valuesOf(1), state).ok());
  auto opened = Checkpoint::open(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ExpectedModel model = expected();
  model.params = {{"w", shape}};
  model.states = {};
  model.record.optimizer = "sgd";
  EXPECT_TRUE((*opened)->findModel(model).ok());
  std::vector<std::string> notes = (*opened)->notesOn(model);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("only names and shapes of parameters were compared"),
            std::string::npos);
  model.record.optimizer = "adamw";
  EXPECT_TRUE((*opened)->checkParameters(model).ok());
  Status status = (*opened)->findModel(model);
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
  expectNone(root + "/file",
             "expected a checkpoint's folder, found the file " + root +
                 "/file; name a folder that `optimus-run train --save` wrote");
}
