//===- WeightsTest.cpp - Folders of weights alone -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../WeightConfig.h"
#include "../WeightMatch.h"
#include "../WeightTypes.h"
#include "CheckpointFixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace optrt;
using optimus_support::ElementType;

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

/// A value of so many bits of exponent and mantissa, by its definition.
static float valueOf(unsigned bits, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const int exponent = int(bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const double mantissa = bits & ((1u << mantissaBits) - 1);
  double value = 0;
  if (exponent == (1 << exponentBits) - 1)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - bias - mantissaBits);
  else
    value =
        std::ldexp(1 + std::ldexp(mantissa, -mantissaBits), exponent - bias);
  return static_cast<float>(bits >> (exponentBits + mantissaBits) ? -value
                                                                  : value);
}

static void expectExact(ElementType type, int exponentBits, int mantissaBits) {
  // From an odd address.
  std::vector<std::byte> from(1 + 2 * 65536);
  for (unsigned bits = 0; bits != 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    std::memcpy(&from[1 + 2 * bits], &half, 2);
  }
  std::vector<float> to(65536);
  widen(type, std::span(from).subspan(1), to);
  for (unsigned bits = 0; bits != 65536; ++bits) {
    const float expected = valueOf(bits, exponentBits, mantissaBits);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(to[bits])) << bits;
    else
      ASSERT_EQ(std::memcmp(&to[bits], &expected, sizeof(float)), 0)
          << bits << ": " << to[bits] << ", expected " << expected;
  }
}

TEST(WeightTypes, AllF16AreExact) { expectExact(ElementType::F16, 5, 10); }
TEST(WeightTypes, AllBF16AreExact) { expectExact(ElementType::BF16, 8, 7); }

TEST(WeightTypes, KnowThoseThatFitIntoF32) {
  EXPECT_EQ(findWeightType("F32"), ElementType::F32);
  EXPECT_EQ(findWeightType("BF16"), ElementType::BF16);
  EXPECT_EQ(findWeightType("F16"), ElementType::F16);
  for (const char *name : {"F64", "I64", "I8", "F8_E4M3", "f32", ""})
    EXPECT_FALSE(findWeightType(name).has_value()) << name;
}

//===----------------------------------------------------------------------===//
// The tensors of parameters
//===----------------------------------------------------------------------===//

namespace {

class Match : public testing::Test {
protected:
  void add(const std::string &name, std::vector<int64_t> shape,
           const std::string &type = "F32") {
    weights.push_back({{name, std::move(shape)}, type, 0, 0});
  }
  StatusOr<WeightMatch> match(std::vector<std::string> ignored = {}) const {
    return matchWeights("DIR", weights, params, ignored);
  }
  void expectTaken(const std::vector<size_t> &tensors) const {
    auto found = match();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->tensors, tensors);
  }
  void expectRefused(const std::string &message,
                     std::vector<std::string> ignored = {}) const {
    auto found = match(std::move(ignored));
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(found.status().message().find(message), std::string::npos)
        << found.status().message();
  }

  std::vector<StoredWeight> weights;
  std::vector<TensorInfo> params{
      {"wte.weight", {5, 2}}, {"wpe.weight", {4, 2}}, {"ln_f.bias", {2}}};
};

} // namespace

TEST_F(Match, TakesAnyOrder) {
  add("ln_f.bias", {2}, "F16");
  add("wte.weight", {5, 2}, "BF16");
  add("wpe.weight", {4, 2});
  expectTaken({1, 2, 0});
}

TEST_F(Match, TakesPrefixesOnEitherSide) {
  for (const char *prefix : {"transformer.", "model.", "bert."}) {
    weights.clear();
    for (const TensorInfo &param : params)
      add(prefix + param.name, param.shape);
    expectTaken({0, 1, 2});
  }
  const std::vector<TensorInfo> bare = params;
  for (const char *prefix : {"transformer.", "model.", "bert."}) {
    weights.clear();
    for (size_t i = 0; i != bare.size(); ++i) {
      add(bare[i].name, bare[i].shape);
      params[i].name = prefix + bare[i].name;
    }
    expectTaken({0, 1, 2});
  }
}

TEST_F(Match, TakesTheOlderNamesOfNorms) {
  params = {{"bert.x.LayerNorm.weight", {2}}, {"bert.x.LayerNorm.bias", {2}}};
  add("x.LayerNorm.beta", {2});
  add("x.LayerNorm.gamma", {2});
  expectTaken({1, 0});
  // Of norms alone.
  params.push_back({"dense.weight", {2}});
  add("dense.gamma", {2});
  expectRefused("they lack 1 of its 3 parameters: dense.weight");
}

TEST_F(Match, TakesATensorOnce) {
  params = {{"x", {2}}, {"model.x", {2}}};
  add("x", {2});
  expectRefused("they lack 1 of its 2 parameters: model.x");
}

TEST_F(Match, TakesAParametersOwnNameFirst) {
  for (const TensorInfo &param : params)
    add(param.name, param.shape);
  add("transformer.ln_f.bias", {2});
  expectRefused("1 tensor without a parameter: transformer.ln_f.bias");
}

TEST_F(Match, NamesAllThatAreMissing) {
  add("wpe.weight", {4, 2});
  expectRefused("they lack 2 of its 3 parameters: wte.weight, ln_f.bias");
}

TEST_F(Match, RefusesOtherShapesAndTypes) {
  add("wte.weight", {5, 3});
  add("wpe.weight", {4, 2});
  add("ln_f.bias", {2}, "I64");
  expectRefused("wte.weight has shape [5, 3], the model's is [5, 2]");
  weights[0].info.shape = {5, 2};
  expectRefused(
      "ln_f.bias has elements of type I64; expected F32, BF16 or F16");
}

TEST_F(Match, TakesTheFirstPositions) {
  add("wte.weight", {5, 2});
  add("wpe.weight", {9, 2});
  add("ln_f.bias", {2});
  auto found = match();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->notes,
            std::vector<std::string>{
                "wpe.weight: the first 4 of 9 positions are used"});
  weights[1].info.shape = {3, 2};
  expectRefused("wpe.weight has 3 positions, the model's sequences have 4 "
                "tokens; build it with --seq 3 or less");
  // Another table's rows are not positions.
  weights[1].info.shape = {4, 2};
  weights[0].info.shape = {6, 2};
  expectRefused("wte.weight has 6 tokens, the library's model 5");
}

TEST_F(Match, NamesTheFlagForASmallerVocabulary) {
  add("wte.weight", {3, 2});
  add("wpe.weight", {4, 2});
  add("ln_f.bias", {2});
  expectRefused("wte.weight has 3 tokens, the library's model 5; python3 -m "
                "optimus.models from-hf DIR --padded-vocabulary 5 writes the "
                "model to compile");
  weights[0].info.shape = {7, 2};
  expectRefused("wte.weight has 7 tokens, the library's model 5; python3 -m "
                "optimus.models from-hf DIR writes the model to compile");
  // Of another width it is another model's.
  weights[0].info.shape = {3, 4};
  expectRefused("wte.weight has shape [3, 4], the model's is [5, 2]");
}

TEST_F(Match, LeavesOutWhatHoldsNothingLearned) {
  for (const TensorInfo &param : params)
    add("transformer." + param.name, param.shape);
  for (const char *name : {"transformer.h.0.attn.bias", "pooler.dense.weight",
                           "model.layers.0.self_attn.rotary_emb.inv_freq"})
    add(name, {3}, "I64");
  auto found = match();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->notes, std::vector<std::string>{
                              "DIR: not used: transformer.h.0.attn.bias, "
                              "pooler.dense.weight, "
                              "model.layers.0.self_attn.rotary_emb.inv_freq"});
  // An end of a name is one of its parts.
  add("xpooler.dense.weight", {3});
  expectRefused("1 tensor without a parameter: xpooler.dense.weight");
}

TEST_F(Match, LeavesOutWhatIsIgnored) {
  for (const TensorInfo &param : params)
    add(param.name, param.shape);
  add("score.weight", {2, 2});
  add("score.bias", {2});
  add("extra", {2});
  expectRefused("3 tensors without a parameter: score.weight, score.bias, "
                "extra");
  expectRefused("1 tensor without a parameter: extra", {"score.*"});
  auto found = match({"score.*", "e?tra"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->notes,
            std::vector<std::string>{
                "DIR: not used: score.weight, score.bias, extra"});
}

TEST_F(Match, HoldsATiedHeadAgainstItsTable) {
  for (const TensorInfo &param : params)
    add("transformer." + param.name, param.shape);
  add("lm_head.weight", {5, 2}, "BF16");
  auto found = match();
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->ties.size(), 1u);
  EXPECT_EQ(found->ties[0].copy, 3u);
  EXPECT_EQ(found->ties[0].original, 0u);
  weights.back().info.shape = {5, 3};
  expectRefused("1 tensor without a parameter: lm_head.weight");
}

//===----------------------------------------------------------------------===//
// config.json
//===----------------------------------------------------------------------===//

static Status checkConfig(const std::string &text) {
  const ModelFunction function{1,
                               "9f86d081884c7d65",
                               {{"heads", {"6", ""}},
                                {"kv_heads", {"2", ""}},
                                {"norm_eps", {"1e-05", ""}},
                                {"rope_theta", {"10000", ""}},
                                {"activation", {"\"gelu\"", ""}},
                                {"tied", {"true", ""}}}};
  return checkWeightConfig(text, "DIR/config.json", function,
                           R"({"use_parallel_residual": false})");
}

TEST(WeightConfig, AgreesWhereItStatesTheSame) {
  for (const char *text :
       {"{}", R"({"n_head": 6, "activation_function": "gelu_new"})",
        R"({"num_attention_heads": 6, "num_key_value_heads": null})",
        R"({"layer_norm_epsilon": 0.00001, "tie_word_embeddings": true})",
        R"({"rms_norm_eps": 9.999999747378752e-06, "rope_theta": 1e4})",
        R"({"rope_parameters": {"rope_theta": 10000.0}, "n_layer": 99})"})
    EXPECT_TRUE(checkConfig(text).ok()) << checkConfig(text).message();
  EXPECT_TRUE(checkWeightConfig(R"({"n_head": 7})", "FILE", std::nullopt).ok());
}

TEST(WeightConfig, NamesAllThatDiffer) {
  auto expectDiffers = [](const char *text, const std::string &message) {
    Status status = checkConfig(text);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_EQ(status.message(),
              "DIR/config.json is of another model than the library: " +
                  message);
  };
  expectDiffers(R"({"n_head": 4})", "n_head: config.json 4, library 6");
  expectDiffers(R"({"use_parallel_residual": true})",
                "use_parallel_residual: config.json true, library false");
  expectDiffers(R"({"num_key_value_heads": 6, "hidden_act": "gelu"})",
                "num_key_value_heads: config.json 6, library 2; hidden_act: "
                "config.json \"exact gelu\", library \"gelu\"");
  expectDiffers(R"({"layer_norm_eps": 1e-12})",
                "layer_norm_eps: config.json 1e-12, library 1e-05");
  expectDiffers(R"({"rope_parameters": {"rope_theta": 500000.0}})",
                "rope_parameters.rope_theta: config.json 500000.0, library "
                "10000");
  expectDiffers(R"({"tie_word_embeddings": false})",
                "tie_word_embeddings: config.json false, library true");
  expectDiffers(R"({"activation_function": "relu"})",
                "activation_function: config.json \"relu\", library \"gelu\"");
}

TEST(WeightConfig, RefusesWhatIsNoObject) {
  for (const std::string &text :
       {std::string("[]"), std::string("{"), std::string(),
        std::string(R"({"n_head": 6, "n_head": 6})"), std::string(100000, '[')})
    EXPECT_EQ(checkConfig(text).code(), StatusCode::DataLoss)
        << text.substr(0, 20);
}
