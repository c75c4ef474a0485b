//===- CheckpointFixture.h - A small model's checkpoint ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_UNITTESTS_CHECKPOINTFIXTURE_H
#define OPTIMUS_RUNTIME_CHECKPOINT_UNITTESTS_CHECKPOINTFIXTURE_H

#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace optrt {

/// A folder of the test's own, and a model of three parameters to save there.
class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name =
        testing::UnitTest::GetInstance()->current_test_info()->name();
    root = testing::TempDir() + "optimus-checkpoint-" + name + "-" +
           std::to_string(getpid());
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    dir = root + "/run";
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  static std::vector<TensorInfo> params() {
    return {{"wte.weight", {12, 5}}, {"h.0.w", {5, 9}}, {"ln_f.bias", {7}}};
  }

  /// The moments of each parameter.
  static std::vector<TensorInfo> moments() {
    std::vector<TensorInfo> result;
    for (const TensorInfo &param : params())
      for (const char *moment : {"exp_avg.", "exp_avg_sq."})
        result.push_back({moment + param.name, param.shape});
    return result;
  }

  /// Element i of a tensor, different for each tensor and `salt`.
  static float valueOf(const std::string &tensor, int64_t salt, int64_t i) {
    return float(std::hash<std::string>()(tensor) % 1000) + 0.5f * i -
           1000.0f * salt;
  }

  static TrainingState stateOf(int64_t step) {
    Hyperparameters hyperparameters;
    hyperparameters.rate = {3e-4, LearningRate::Schedule::Cosine, 5};
    hyperparameters.clip = std::numeric_limits<double>::infinity();
    // A hash of all that is there only now and then.
    DataRecord data{
        "corpus.bin",      {TokenType::U16, 4000, 0xABCu, {}}, 32, 4, 0,
        "0123456789abcdef"};
    data.position = step * 16 * data.sequence;
    if (step % 2 == 1)
      data.identity.contents = 0x123456789ABCDEF0u;
    return {step,
            0xFFFFFFFFFFFFFFF5u,
            step * 16,
            "shuffled",
            "60303ae22b998861",
            hyperparameters,
            data,
            record(),
            BestEvaluation{1.5, step / 2, 2}};
  }

  /// Of the library that writes.
  static ModelRecord record() {
    ModelFunction function{
        1,
        "9f86d081884c7d65",
        {{"heads", {"6", "--heads"}}, {"mask", {"\"causal\"", ""}}}};
    return {function, "adamw", {{"batch", {"16", ""}}}};
  }
  /// The expectations of that library.
  static ExpectedModel expected() {
    return {"60303ae22b998861", params(), moments(), record(), ""};
  }

  /// Every tensor: the parameters, then their moments.
  static std::vector<std::pair<CheckpointFile, TensorInfo>> allTensors() {
    std::vector<std::pair<CheckpointFile, TensorInfo>> result;
    for (const TensorInfo &param : params())
      result.push_back({CheckpointFile::Model, param});
    for (const TensorInfo &moment : moments())
      result.push_back({CheckpointFile::Optimizer, moment});
    return result;
  }

  /// A writer with every tensor declared.
  static StatusOr<std::unique_ptr<CheckpointWriter>>
  declareAll(const std::string &dir, CheckpointWriterOptions options = {}) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointWriter> writer,
                           CheckpointWriter::create(dir, options));
    OPTRT_RETURN_IF_ERROR(declareAll(*writer));
    return writer;
  }
  static Status declareAll(CheckpointWriter &writer) {
    for (const auto &[file, info] : allTensors())
      OPTRT_RETURN_IF_ERROR(writer.addTensor(file, info.name, info.shape));
    return okStatus();
  }

  /// Element i of the tensor of this name.
  using ValueOf = std::function<float(const std::string &name, int64_t i)>;
  static ValueOf valuesOf(int64_t salt) {
    return [salt](const std::string &name, int64_t i) {
      return valueOf(name, salt, i);
    };
  }

  /// Writes these pieces, each a few elements at a time.
  static Status writePieces(CheckpointWriter &writer,
                            const std::vector<size_t> &pieces,
                            const ValueOf &valueOf, size_t atATime = 1000) {
    const CheckpointPieces &all = writer.pieces();
    for (size_t piece : pieces) {
      PieceWriter file(writer, piece);
      std::vector<float> values;
      for (size_t begin = 0; file.numLeft() > 0; begin += values.size()) {
        values.clear();
        for (const TensorPart &part :
             all.parts(piece, begin, std::min(atATime, file.numLeft())))
          for (int64_t i = part.begin; i < part.begin + part.count; ++i)
            values.push_back(valueOf(all.tensor(part.tensor).info.name, i));
        OPTRT_RETURN_IF_ERROR(file.append(values));
      }
    }
    return okStatus();
  }

  /// The pieces first, first + step, ...
  static std::vector<size_t> piecesOf(const CheckpointWriter &writer,
                                      size_t first = 0, size_t step = 1) {
    std::vector<size_t> pieces;
    for (size_t piece = first; piece < writer.pieces().size(); piece += step)
      pieces.push_back(piece);
    return pieces;
  }

  /// Begins, writes all pieces and commits.
  static Status writeAll(CheckpointWriter &writer, const ValueOf &valueOf,
                         const TrainingState &state) {
    OPTRT_RETURN_IF_ERROR(writer.begin());
    OPTRT_RETURN_IF_ERROR(writePieces(writer, piecesOf(writer), valueOf));
    return writer.commit(state);
  }

  /// Saves the model with the values of `salt`, as of step `salt`.
  static Status save(const std::string &dir, int64_t salt,
                     CheckpointWriterOptions options = {}) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointWriter> writer,
                           declareAll(dir, options));
    return writeAll(*writer, valuesOf(salt), stateOf(salt));
  }

  /// Checks that a checkpoint is whole: its tensors are those of its step.
  static void expectWhole(const Checkpoint &checkpoint) {
    int64_t salt = checkpoint.state().step;
    EXPECT_EQ(checkpoint.state(), stateOf(salt));
    for (const auto &[file, info] : allTensors()) {
      auto values = checkpoint.readTensor(info.name);
      ASSERT_TRUE(values.ok()) << values.status().message();
      ASSERT_EQ(int64_t(values->size()),
                optimus_support::numElements(info.shape));
      for (size_t i = 0; i < values->size(); ++i)
        ASSERT_EQ((*values)[i], valueOf(info.name, salt, i))
            << info.name << "[" << i << "] at step " << salt;
    }
  }

  /// The names in a folder, sorted, hidden ones included.
  static std::vector<std::string> list(const std::string &folder) {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string readFile(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void writeFile(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string root; ///< the test's folder
  std::string dir;  ///< of the checkpoint, in it
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_UNITTESTS_CHECKPOINTFIXTURE_H
