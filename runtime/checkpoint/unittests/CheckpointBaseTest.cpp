//===- CheckpointBaseTest.cpp - Checkpoints of adapters alone -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"
#include "optimus-runtime/WeightExport.h"

#include <gtest/gtest.h>

using namespace optrt;

namespace {

class Adapters : public CheckpointTest {
protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    base = root + "/base";
    ASSERT_TRUE(save(base, 1).ok());
  }

  static std::vector<TensorInfo> adapters() {
    return {{"base_model.model.h.0.lora_A.weight", {2, 5}},
            {"base_model.model.h.0.lora_B.weight", {9, 2}}};
  }

  static constexpr const char *kAdapter =
      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";

  static ExpectedModel expectedWithAdapters() {
    ExpectedModel model = expected();
    const std::vector<TensorInfo> own = adapters();
    model.params.insert(model.params.end(), own.begin(), own.end());
    model.states.clear();
    for (const TensorInfo &info : own)
      model.states.push_back({"exp_avg." + info.name, info.shape});
    model.adapter = kAdapter;
    return model;
  }

  static uint64_t hashOf(const std::string &folder) {
    auto opened = Checkpoint::open(folder);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    auto weights = (*opened)->baseWeights();
    EXPECT_TRUE(weights.ok()) << weights.status().message();
    return weights->hash;
  }

  /// Saves adapters alone, beside the weights in `base`.
  Status saveAdapters() {
    OPTRT_ASSIGN_OR_RETURN(auto writer, CheckpointWriter::create(dir));
    for (const TensorInfo &info : adapters()) {
      OPTRT_RETURN_IF_ERROR(
          writer->addTensor(CheckpointFile::Model, info.name, info.shape));
      OPTRT_RETURN_IF_ERROR(writer->addTensor(
          CheckpointFile::Optimizer, "exp_avg." + info.name, info.shape));
    }
    OPTRT_RETURN_IF_ERROR(
        writer->addFile({kAdapterConfigFile, withBaseModel(kAdapter, base)}));
    TrainingState state = stateOf(2);
    state.trained = {adapters()[0].name, adapters()[1].name};
    state.base = hashOf(base);
    return writeAll(*writer, valuesOf(2), state);
  }

  std::string base;
};

} // namespace

TEST_F(Adapters, AreReadBesideTheirBase) {
  ASSERT_TRUE(saveAdapters().ok());
  EXPECT_EQ(list(dir), (std::vector<std::string>{
                           "adapter_config.json", "adapter_model.safetensors",
                           "optimizer.safetensors", "state.json"}));
  // The base as a checkpoint, and as weights that were written from it.
  const std::string weights = root + "/weights";
  {
    auto opened = Checkpoint::open(base);
    ASSERT_TRUE(opened.ok());
    WeightExportOptions format;
    format.config = "{}";
    format.shardLimitBytes = 200;
    ASSERT_TRUE(exportWeights(**opened, weights, format).ok());
  }
  for (const std::string &folder : {base, weights}) {
    CheckpointReaderOptions options;
    options.base = folder;
    auto opened = Checkpoint::open(dir, options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    Checkpoint &checkpoint = **opened;
    EXPECT_EQ(checkpoint.readsWeights(), folder == weights);
    EXPECT_EQ(checkpoint.knowsParameters(), folder != weights);
    Status found = checkpoint.findModel(expectedWithAdapters());
    ASSERT_TRUE(found.ok()) << found.message();
    EXPECT_TRUE(checkpoint.knowsParameters());
    EXPECT_FALSE(checkpoint.hasWeightsAlone());
    EXPECT_EQ(checkpoint.state().step, 2);
    std::vector<std::pair<TensorInfo, int64_t>> all;
    for (const TensorInfo &info : params())
      all.push_back({info, 1});
    for (const TensorInfo &info : adapters()) {
      all.push_back({info, 2});
      all.push_back({{"exp_avg." + info.name, info.shape}, 2});
    }
    EXPECT_FALSE(checkpoint.has("exp_avg.wte.weight"));
    for (const auto &[info, salt] : all) {
      auto values = checkpoint.readTensor(info.name);
      ASSERT_TRUE(values.ok()) << values.status().message();
      for (size_t i = 0; i != values->size(); ++i)
        ASSERT_EQ((*values)[i], valueOf(info.name, salt, int64_t(i)));
    }
  }
}

TEST_F(Adapters, RefuseOtherWeights) {
  ASSERT_TRUE(saveAdapters().ok());
  const std::string other = root + "/other";
  ASSERT_TRUE(save(other, 3).ok());
  CheckpointReaderOptions options;
  options.base = other;
  auto opened = Checkpoint::open(dir, options);
  EXPECT_EQ(opened.status().code(), StatusCode::InvalidArgument);
  for (const std::string &part :
       {"the adapters in " + dir, "those in " + other + " have ",
        std::string("--base")})
    EXPECT_NE(opened.status().message().find(part), std::string::npos)
        << opened.status().message();
  // Whoever asks for the state alone needs no base.
  std::filesystem::rename(base, root + "/moved");
  EXPECT_NE(Checkpoint::open(dir).status().message().find(
                "expected base_model_name_or_path to be a folder"),
            std::string::npos);
  auto state = Checkpoint::openFiles(dir, {.opensBase = false});
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ((*state)->state().step, 2);
  options.base = root + "/nowhere";
  EXPECT_NE(Checkpoint::open(dir, options)
                .status()
                .message()
                .find("--base " + options.base + ": expected a folder with"),
            std::string::npos);
  options.base = root + "/moved";
  EXPECT_TRUE(Checkpoint::open(dir, options).ok());
  // A whole checkpoint needs none either.
  EXPECT_NE(Checkpoint::open(root + "/moved", options)
                .status()
                .message()
                .find("--base is for adapters alone"),
            std::string::npos);
}

TEST_F(Adapters, FindDamageInTheirConfiguration) {
  ASSERT_TRUE(saveAdapters().ok());
  // Of the same size: the base that it names is not looked for.
  const std::string path = dir + "/adapter_config.json";
  std::string text = readFile(path);
  text.replace(text.find("base\""), 4, "elsw");
  writeFile(path, text);
  for (const std::string &given : {std::string(), base}) {
    CheckpointReaderOptions options;
    options.base = given;
    auto opened = Checkpoint::open(dir, options);
    EXPECT_EQ(opened.status().code(), StatusCode::DataLoss);
    EXPECT_NE(opened.status().message().find("adapter_config.json is damaged: "
                                             "its checksum is "),
              std::string::npos)
        << opened.status().message();
  }
}

TEST_F(Adapters, FindDamageInTheirBase) {
  ASSERT_TRUE(saveAdapters().ok());
  const std::string path = base + "/model.safetensors";
  std::string bytes = readFile(path);
  bytes[bytes.size() - 2] ^= 1;
  writeFile(path, bytes);
  auto opened = Checkpoint::open(dir);
  EXPECT_FALSE(opened.ok());
  // Weights in the folder itself are none that it was trained beside.
  ASSERT_TRUE(save(base, 1).ok());
  std::filesystem::copy(path, dir + "/model.safetensors");
  opened = Checkpoint::open(dir);
  EXPECT_EQ(opened.status().code(), StatusCode::DataLoss);
  EXPECT_NE(opened.status().message().find("says that it has adapters alone"),
            std::string::npos)
      << opened.status().message();
}
