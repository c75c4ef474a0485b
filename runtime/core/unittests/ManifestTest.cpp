//===- ManifestTest.cpp - What the runtime knows of a model ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Manifest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <set>

using namespace optrt;
using nlohmann::json;

/// The example of docs/manifest.md: a 2x2 mesh and six heads padded to eight.
static json example() {
  return json::parse(R"json({
    "format": 1,
    "compiler": "optimus 0.1.0 (LLVM 22.1.8)",
    "source_hash": "9f86d081884c7d65",
    "model_hash": "60303ae22b998861",
    "target": {"cpu": "znver4", "features": ["avx2", "fma"]},
    "mesh": [{"axis": "row", "size": 2}, {"axis": "col", "size": 2}],
    "strategy": "summa",
    "model": {"batch": 16, "sequence": 128, "vocabulary": 256},
    "optimizer": "adamw",
    "dimensions": [
      {"name": "heads", "size": 6, "padded": 8, "axes": ["col"]}],
    "params": [
      {"name": "h.0.attn.c_attn.weight",
       "hf_shape": [192, 576],
       "shape": [192, 3, 6, 32],
       "local_shape": [96, 3, 4, 32],
       "sharding": [["row"], [], ["col"], []],
       "init": {"kind": "normal", "stddev": 0.02, "stream": 2},
       "decay": true},
      {"name": "ln_f.weight", "hf_shape": [192], "shape": [192],
       "local_shape": [96], "sharding": [["col"]],
       "init": {"kind": "ones"}, "decay": false}],
    "inputs": {
      "tokens": {"shape": [16, 128], "local_shape": [8, 128],
                 "sharding": [["row"], []]},
      "targets": {"shape": [16, 128], "local_shape": [8, 128],
                  "sharding": [["row"], []]}},
    "functions": [
      {"name": "train_step",
       "args": [
         {"kind": "param", "index": 0}, {"kind": "exp_avg", "index": 0},
         {"kind": "exp_avg_sq", "index": 0}, {"kind": "param", "index": 1},
         {"kind": "tokens"}, {"kind": "targets"},
         {"kind": "scalar", "name": "lr"},
         {"kind": "scalar", "name": "beta2_power"},
         {"kind": "output", "name": "loss_sum", "rounding": 12.5},
         {"kind": "output", "name": "real_count"},
         {"kind": "output", "name": "grad_norm"}],
       "commands": 812,
       "arena_bytes": 10485760, "lower_bound_bytes": 10395648,
       "peak_bytes": {"activation": 8388608, "gradient": 1048576},
       "communication": [
         {"axis": "row", "bytes": 4194304, "messages": 96},
         {"axis": "col", "bytes": 8388608, "messages": 120}],
       "schedule": {
         "predicted_step_ms": 12.5, "predicted_comm_ms": 4,
         "predicted_exposed_ms": 0.5, "extra_workspace_bytes": 4096,
         "not_overlapped": 7, "out_of_workspace": 2}},
      {"name": "eval_step",
       "args": [
         {"kind": "param", "index": 0}, {"kind": "param", "index": 1},
         {"kind": "tokens"}, {"kind": "targets"},
         {"kind": "output", "name": "loss_sum"},
         {"kind": "output", "name": "real_count"}],
       "commands": 300, "arena_bytes": 0}]
  })json");
}

TEST(Manifest, ReadsTheExample) {
  StatusOr<Manifest> parsed = parseManifest(example().dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Manifest &manifest = *parsed;
  EXPECT_EQ(manifest.compiler, "optimus 0.1.0 (LLVM 22.1.8)");
  EXPECT_EQ(manifest.sourceHash, "9f86d081884c7d65");
  EXPECT_EQ(manifest.modelHash, "60303ae22b998861");
  EXPECT_EQ(manifest.targetCpu, "znver4");
  EXPECT_EQ(manifest.targetFeatures, (std::vector<std::string>{"avx2", "fma"}));
  EXPECT_EQ(manifest.mesh, Mesh({{"row", 2}, {"col", 2}}));
  EXPECT_EQ(manifest.strategy, "summa");
  EXPECT_EQ(manifest.optimizer, "adamw");
  EXPECT_EQ(manifest.batch, 16);
  EXPECT_EQ(manifest.sequence, 128);
  EXPECT_EQ(manifest.vocabulary, 256);

  ASSERT_EQ(manifest.dimensions.size(), 1u);
  EXPECT_EQ(manifest.dimensions[0].name, "heads");
  EXPECT_EQ(manifest.dimensions[0].padded, 8);
  EXPECT_EQ(manifest.dimensions[0].axes, std::vector<int>{1});

  ASSERT_EQ(manifest.params.size(), 2u);
  const Param &param = manifest.params[0];
  EXPECT_EQ(param.name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(param.hfShape, (std::vector<int64_t>{192, 576}));
  EXPECT_EQ(param.layout,
            (ShardLayout{{192, 3, 6, 32}, {96, 3, 4, 32}, {{0}, {}, {1}, {}}}));
  EXPECT_EQ(param.init, (optimus_support::Initializer{
                            optimus_support::InitKind::Normal, 0.02, 2}));
  EXPECT_TRUE(param.decay);
  EXPECT_EQ(manifest.params[1].init.kind, optimus_support::InitKind::Ones);
  EXPECT_FALSE(manifest.params[1].decay);
  EXPECT_EQ(manifest.numParamElements(), 192 * 576 + 192);
  EXPECT_EQ(manifest.tokens, (ShardLayout{{16, 128}, {8, 128}, {{0}, {}}}));
  EXPECT_EQ(manifest.targets, manifest.tokens);

  const Function *train = manifest.findFunction("train_step");
  ASSERT_TRUE(train);
  ASSERT_EQ(train->args.size(), 11u);
  EXPECT_EQ(train->args[1].kind, ArgKind::ExpAvg);
  EXPECT_EQ(train->args[1].index, 0);
  EXPECT_EQ(train->args[3].kind, ArgKind::Param);
  EXPECT_EQ(train->args[3].index, 1);
  EXPECT_EQ(train->args[7].kind, ArgKind::Scalar);
  EXPECT_EQ(train->args[7].scalar, optrt::Scalar::Beta2Power);
  EXPECT_EQ(train->args[10].kind, ArgKind::Output);
  EXPECT_EQ(train->args[10].output, optrt::Output::GradNorm);
  EXPECT_EQ(train->commands, 812);
  EXPECT_EQ(train->arenaBytes, 10485760);
  EXPECT_EQ(train->lowerBoundBytes, 10395648);
  EXPECT_EQ(train->peakBytes.at("gradient"), 1048576);
  EXPECT_EQ(train->findOutput(Output::LossSum)->rounding, 12.5);
  EXPECT_EQ(train->findOutput(Output::RealCount)->rounding, std::nullopt);
  EXPECT_EQ(train->findGradient(0), nullptr);
  ASSERT_EQ(train->communication.size(), 2u);
  EXPECT_EQ(train->communication[1].axis, 1);
  EXPECT_EQ(train->communication[1].bytes, 8388608);
  EXPECT_EQ(train->communication[1].messages, 120);
  ASSERT_TRUE(train->schedule);
  EXPECT_EQ(train->schedule->stepMs, 12.5);
  EXPECT_EQ(train->schedule->commMs, 4);
  EXPECT_EQ(train->schedule->exposedMs, 0.5);
  EXPECT_EQ(train->schedule->extraWorkspaceBytes, 4096);
  EXPECT_EQ(train->schedule->notOverlapped, 7);
  EXPECT_EQ(train->schedule->outOfWorkspace, 2);
  const Function *eval = manifest.findFunction("eval_step");
  ASSERT_TRUE(eval);
  EXPECT_FALSE(eval->schedule);
  EXPECT_TRUE(eval->hasOutput(optrt::Output::RealCount));
  EXPECT_FALSE(eval->hasOutput(optrt::Output::GradNorm));
  EXPECT_FALSE(manifest.findFunction("grad_step"));
}

TEST(Manifest, SpellsItsNames) {
  EXPECT_EQ(toString(optrt::Scalar::WeightDecay), "weight_decay");
  EXPECT_EQ(toString(optrt::Scalar::Beta2Power), "beta2_power");
  EXPECT_EQ(toString(optrt::Output::GradNorm), "grad_norm");
  EXPECT_EQ(toString(ArgKind::ExpAvgSq), "exp_avg_sq");
  EXPECT_EQ(toString(ArgKind::Output), "output");
}

TEST(Manifest, AllowsWhatIsOptionalToBeMissing) {
  json manifest = example();
  for (const char *key : {"compiler", "strategy", "optimizer", "target"})
    manifest.erase(key);
  for (const char *key : {"lower_bound_bytes", "peak_bytes", "communication"})
    manifest["functions"][0].erase(key);
  EXPECT_TRUE(parseManifest(manifest.dump()).ok());
}

/// One mistake in the example, and part of the message it must give.
struct Mistake {
  const char *name;
  const char *pointer; ///< the JSON pointer of what is replaced
  json value;
  const char *message;
};

class ManifestMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ManifestMistake, IsNamed) {
  json manifest = example();
  manifest[json::json_pointer(GetParam().pointer)] = GetParam().value;
  StatusOr<Manifest> parsed = parseManifest(manifest.dump());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::InvalidArgument);
  EXPECT_NE(parsed.status().message().find(GetParam().message),
            std::string::npos)
      << parsed.status().message();
}

static const Mistake kMistakes[] = {
    {"Format", "/format", 2, "reads format 1, the library has 2"},
    {"HashDigits", "/model_hash", "60303AE22B998861",
     "model_hash: expected 16"},
    {"AxisTwice", "/mesh/1/axis", "row", "\"row\" is used twice"},
    {"AxisSize", "/mesh/0/size", 0, "mesh[0].size: expected an integer"},
    {"MeshTooLarge", "/mesh/0/size", 1 << 24, "more than 16777216 ranks"},
    {"Batch", "/model/batch", -1, "model.batch: expected an integer from 1"},
    {"DimensionShrinks", "/dimensions/0/padded", 5,
     "dimensions[0].padded: expected an integer from 6"},
    {"DimensionAxis", "/dimensions/0/axes/0", "data",
     "no axis \"data\" in the mesh row:2,col:2"},
    {"ParamTwice", "/params/1/name", "h.0.attn.c_attn.weight",
     "params[1].name: the name \"h.0.attn.c_attn.weight\" is used twice"},
    {"ParamUnnamed", "/params/1/name", "", "params[1].name: expected a name"},
    {"HfShape",
     "/params/0/hf_shape",
     {192, 577},
     "different numbers of elements"},
    {"ZeroExtent", "/params/0/shape/1", 0, "params[0].shape[1]"},
    {"ExtentNotInteger", "/params/0/shape/1", 3.0,
     "params[0].shape[1]: expected an integer, found number"},
    {"ExtentTooLarge", "/params/0/shape/1", 18446744073709551615u,
     "params[0].shape[1]"},
    {"TooManyElements",
     "/params/0/shape",
     {1 << 20, 1 << 20, 1 << 20, 1},
     "more than 2^48 elements"},
    {"Dimensions", "/params/0/local_shape", {96, 3, 4}, "they have 4, 3 and 4"},
    {"ShardTooSmall", "/params/0/local_shape/0", 95,
     "local_shape[0]: 2 shards of 95 do not cover the extent 192"},
    {"ShardTooLarge", "/params/0/local_shape/0", 97,
     "pad the extent 192 to 194"},
    {"PaddingOverflows", "/params/0/local_shape/0", int64_t(1) << 48,
     "params[0]"},
    {"AxisCutsTwice",
     "/params/0/sharding/1",
     {"row"},
     "the axis \"row\" cuts the tensor twice"},
    {"ShardingAxis", "/params/0/sharding/0/0", "rows", "no axis \"rows\""},
    {"InitKind", "/params/0/init/kind", "uniform",
     "expected one of normal, zeros, ones; found \"uniform\""},
    {"NegativeStddev", "/params/0/init/stddev", -0.02, "stddev"},
    {"ReservedStream", "/params/0/init/stream", 0xFFFFFFFFu, "stream"},
    {"Decay", "/params/0/decay", 1, "decay: expected true or false"},
    {"InputShape", "/model/sequence", 127,
     "inputs.tokens.shape: expected [batch, sequence] = [16, 127], found "
     "[16, 128]"},
    {"ArgKind", "/functions/0/args/0/kind", "weight", "found \"weight\""},
    {"ArgIndex", "/functions/0/args/0/index", 2,
     "functions[0].args[0].index: expected an integer from 0 to 1"},
    {"ArgTwice", "/functions/0/args/0/index", 1,
     "functions[0].args[3]: the same argument as an earlier one"},
    {"ScalarName", "/functions/0/args/6/name", "rate", "found \"rate\""},
    {"OutputName", "/functions/0/args/8/name", "loss", "found \"loss\""},
    {"MissingOutput",
     "/functions/0/args/10",
     {{"kind", "grad"}, {"index", 0}},
     "no output \"grad_norm\", which train_step must have"},
    {"Rounding", "/functions/0/args/8/rounding", -1,
     "functions[0].args[8].rounding: expected a finite number from 0"},
    {"FunctionTwice", "/functions/1/name", "train_step", "is used twice"},
    {"Arena", "/functions/0/arena_bytes", -64, "arena_bytes"},
    {"TrafficAxis", "/functions/0/communication/0/axis", "x", "no axis \"x\""},
    {"TrafficTwice", "/functions/0/communication/0/axis", "col",
     "communication[1].axis: the same axis"},
    {"NegativeTime", "/functions/0/schedule/predicted_comm_ms", -1,
     "predicted_comm_ms: expected a finite number from 0"},
    {"MoreBoundedThanAll", "/functions/0/schedule/out_of_workspace", 8,
     "out_of_workspace"},
    {"NotAnArray", "/functions", 3, "functions: expected an array"},
    {"NotAnObject", "/model", {1}, "model: expected an object, found array"},
};
INSTANTIATE_TEST_SUITE_P(Manifest, ManifestMistake,
                         testing::ValuesIn(kMistakes), [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST(Manifest, NamesEveryMissingMember) {
  // Every member that is not optional is missed by its name.
  std::function<void(const json &, const json::json_pointer &)> visit =
      [&](const json &value, const json::json_pointer &pointer) {
        for (auto &[key, member] : value.items()) {
          json::json_pointer place =
              value.is_array() ? pointer / std::stoul(key) : pointer / key;
          if (member.is_structured())
            visit(member, place);
          if (!value.is_object() || pointer.to_string().ends_with("peak_bytes"))
            continue;
          json manifest = example();
          manifest[pointer].erase(key);
          StatusOr<Manifest> parsed = parseManifest(manifest.dump());
          static const std::set<std::string> optional = {
              "compiler",   "strategy",      "optimizer",         "target",
              "peak_bytes", "communication", "lower_bound_bytes", "schedule",
              "rounding"};
          EXPECT_EQ(parsed.ok(), optional.count(key) == 1) << place.to_string();
          // Without dimensions, the padded heads are what is wrong.
          if (!parsed.ok() && key != "dimensions") {
            EXPECT_NE(parsed.status().message().find("\"" + key + "\""),
                      std::string::npos)
                << parsed.status().message();
          }
        }
      };
  visit(example(), json::json_pointer());
}

TEST(Manifest, SurvivesEveryTruncation) {
  std::string text = example().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    StatusOr<Manifest> parsed =
        parseManifest(std::string_view(text).substr(0, size));
    ASSERT_FALSE(parsed.ok());
    ASSERT_NE(parsed.status().message().find("not valid JSON"),
              std::string::npos);
  }
}

TEST(Manifest, SurvivesEveryDamagedByte) {
  std::string text = example().dump();
  // Two for every byte: all would take half a minute under the sanitizers.
  constexpr std::string_view kDamage("\0"
                                     "09\"}]-\xff",
                                     8);
  int accepted = 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (size_t which : {i, i + 3}) {
      std::string damaged = text;
      damaged[i] = kDamage[which % kDamage.size()];
      StatusOr<Manifest> parsed = parseManifest(damaged);
      accepted += parsed.ok();
      ASSERT_TRUE(parsed.ok() ||
                  parsed.status().code() == StatusCode::InvalidArgument);
    }
  // Names, hashes and counts may change and stay valid; structure may not.
  EXPECT_LT(accepted, int(text.size()));
}

TEST(Manifest, RejectsRepeatedKeys) {
  std::string text = example().dump();
  text.insert(1, "\"format\": 1, ");
  StatusOr<Manifest> parsed = parseManifest(text);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find("the key \"format\" twice"),
            std::string::npos);
}

TEST(Manifest, SurvivesDeepNesting) {
  std::string text(200000, '[');
  EXPECT_FALSE(parseManifest(text).ok());
  text += std::string(200000, ']');
  EXPECT_FALSE(parseManifest(text).ok());
}
