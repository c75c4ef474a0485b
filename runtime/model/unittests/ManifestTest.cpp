//===- ManifestTest.cpp - What the runtime knows of a model ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestExample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using nlohmann::json;

/// A tile is numbered as ranks are.
TEST(Manifest, PlacesRanksOnNodes) {
  json manifest = example();
  auto getNodes = [&](const json &placement) {
    manifest["placement"] = placement;
    return parseManifest(manifest.dump())->nodes;
  };
  EXPECT_EQ(getNodes({{"tile", {2, 1}}}), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(getNodes({{"tile", {1, 2}}}), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(getNodes({{"consecutive", 3}}), (std::vector<int64_t>{0, 0, 0, 1}));
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
  EXPECT_EQ(manifest.precision, ElementType::BF16);
  EXPECT_EQ(manifest.function, (ModelFunction{1,
                                              "0f0e0d0c0b0a0908",
                                              {{"heads", {"6", "--heads"}},
                                               {"epsilon", {"1e-05", ""}}}}));
  EXPECT_EQ(manifest.record().compilation,
            (ModelFacts{{"dropout", {"0.1", ""}},
                        {"mesh", {"\"row:2,col:2\"", ""}},
                        {"precision", {"\"bf16\"", ""}},
                        {"strategy", {"\"summa\"", ""}}}));
  EXPECT_EQ(manifest.config, R"({"model_type":"gpt2"})");
  EXPECT_EQ(manifest.batch, 16);
  EXPECT_EQ(manifest.sequence, 128);
  EXPECT_EQ(manifest.vocabulary, 256);

  ASSERT_EQ(manifest.dimensions.size(), 1u);
  EXPECT_EQ(manifest.dimensions[0].name, "heads");
  EXPECT_EQ(manifest.dimensions[0].padded, 8);
  EXPECT_EQ(manifest.dimensions[0].axes, std::vector<int>{1});

  ASSERT_EQ(manifest.buffers.size(), 11u);
  const Buffer &param = manifest.buffers[0];
  EXPECT_EQ(param.name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(param.role, "parameter");
  EXPECT_EQ(param.lifetime, Lifetime::Parameter);
  EXPECT_EQ(param.saved->file, CheckpointFile::Model);
  EXPECT_EQ(param.saved->name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(param.saved->shape, (std::vector<int64_t>{192, 576}));
  EXPECT_EQ(param.layout,
            (ShardLayout{{192, 3, 6, 32}, {96, 3, 4, 32}, {{0}, {}, {1}, {}}}));
  EXPECT_EQ(param.init, (optimus_support::Initializer{
                            optimus_support::InitKind::Normal, 0.02, 2}));
  EXPECT_TRUE(param.decay);
  EXPECT_EQ(param.of, -1);
  EXPECT_EQ(manifest.buffers[1].init->kind, optimus_support::InitKind::Ones);
  EXPECT_FALSE(manifest.buffers[1].decay);
  EXPECT_EQ(manifest.numParamElements(), 192 * 576 + 192);
  EXPECT_EQ(manifest.buffersOfLifetime(Lifetime::Parameter),
            (std::vector<int64_t>{0, 1}));

  const Buffer &state = manifest.buffers[2];
  EXPECT_EQ(state.of, 1);
  EXPECT_EQ(state.lifetime, Lifetime::State);
  EXPECT_EQ(state.reset, Reset::Never);
  EXPECT_EQ(state.saved->file, CheckpointFile::Optimizer);
  EXPECT_EQ(state.saved->name, "exp_avg.ln_f.weight");
  const Buffer &sum = manifest.buffers[3];
  EXPECT_EQ(sum.unreduced, std::vector<int>{0});
  EXPECT_EQ(sum.reset, Reset::Step);
  EXPECT_EQ(sum.init, (optimus_support::Initializer{
                          optimus_support::InitKind::Constant, 0.5, 0}));
  EXPECT_FALSE(sum.saved);
  const Buffer &tokens = manifest.buffers[4];
  EXPECT_EQ(tokens.type, ElementType::I32);
  EXPECT_EQ(tokens.filledBy, FilledBy::Data);
  EXPECT_EQ(tokens.layout, (ShardLayout{{16, 128}, {8, 128}, {{0}, {}}}));
  EXPECT_TRUE(manifest.buffers[5].isNumber());
  EXPECT_EQ(manifest.buffers[5].filledBy, FilledBy::Host);
  EXPECT_EQ(manifest.buffers[9].type, ElementType::BF16);
  EXPECT_EQ(manifest.buffers[9].numBytes(), 8 * 128 * 2);
  EXPECT_EQ(manifest.buffers[9].reset, Reset::Sequence);
  EXPECT_EQ(manifest.findBuffer("lr"), 5);
  EXPECT_EQ(manifest.findBuffer("rate"), std::nullopt);
  EXPECT_EQ(manifest.findRole("exp_avg", 1), 2);
  EXPECT_EQ(manifest.findRole("exp_avg"), std::nullopt);

  const Function *train = manifest.findFunction("train_step");
  ASSERT_TRUE(train);
  ASSERT_EQ(train->args.size(), 8u);
  EXPECT_EQ(train->args[1].buffer, 2);
  EXPECT_EQ(train->args[1].access, Access::Update);
  EXPECT_EQ(train->args[4].access, Access::Read);
  EXPECT_EQ(train->args[7].access, Access::Write);
  EXPECT_EQ(train->kind, EntryKind::Train);
  EXPECT_EQ(train->batch, 16);
  EXPECT_EQ(train->sequence, 128);
  EXPECT_EQ(train->commands, 812);
  EXPECT_EQ(train->arenaBytes, 10485760);
  EXPECT_EQ(train->lowerBoundBytes, 10395648);
  EXPECT_EQ(train->peakBytes.at("gradient"), 1048576);
  EXPECT_EQ(train->findArg(6)->rounding, 12.5);
  EXPECT_EQ(train->findArg(7)->rounding, std::nullopt);
  EXPECT_EQ(train->findArg(3), nullptr);
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
  EXPECT_TRUE(eval->findArg(7));
  EXPECT_FALSE(eval->findArg(8));
  EXPECT_FALSE(manifest.findFunction("grad_step"));
}

TEST(Manifest, FindsFunctionsByKind) {
  nlohmann::json json = example();
  auto find = [&](EntryKind kind, std::string_view name = {}) {
    StatusOr<Manifest> manifest = parseManifest(json.dump());
    EXPECT_TRUE(manifest.ok()) << manifest.status().message();
    StatusOr<const Function *> found =
        manifest->findEntry("m.so", kind, name, "--function names one");
    return found.ok() ? (*found)->name : found.status().message();
  };
  EXPECT_EQ(find(EntryKind::Train), "train_step");
  EXPECT_EQ(
      find(EntryKind::Forward),
      "`m.so` has no function of the kind forward; its functions are "
      "train_step (train, batch 16 of 128 tokens), eval_step (eval, batch "
      "16 of 128 tokens), decode (other); `python3 -m optimus.models … "
      "--functions forward` writes a program with one, for optimus-compile");
  json["functions"][2]["entry"]["kind"] = "forward";
  EXPECT_EQ(find(EntryKind::Forward), "decode");
  json["functions"].push_back(json["functions"][2]);
  json["functions"][3]["name"] = "again";
  EXPECT_EQ(find(EntryKind::Forward),
            "`m.so` has several functions of the kind forward: decode "
            "(forward), again (forward); --function names one");
  EXPECT_EQ(find(EntryKind::Forward, "again"), "again");
  EXPECT_THAT(find(EntryKind::Forward, "eval_step"),
              testing::StartsWith("`m.so` has no function of the kind forward "
                                  "called eval_step; its functions are "));
}

TEST(Manifest, FindsFunctionsByKindOrName) {
  nlohmann::json json = example();
  json["functions"][2]["name"] = "append";
  StatusOr<Manifest> manifest = parseManifest(json.dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  auto find = [&](std::string_view text) {
    StatusOr<const Function *> found =
        manifest->findFunctionOrKind("m.so", text);
    return found.ok() ? (*found)->name : found.status().message();
  };
  EXPECT_EQ(find("train"), "train_step");
  EXPECT_EQ(find("append"), "append");
  EXPECT_THAT(find("decode"), testing::StartsWith("`m.so` has no function of "
                                                  "the kind decode; "));
  EXPECT_THAT(find("step"),
              testing::StartsWith("`m.so` has no function, nor a kind of them, "
                                  "called step; its functions are train_step"));
}

/// The example with a function that generates text, of buffers from 11 on.
static nlohmann::json generatingExample() {
  nlohmann::json json = example();
  auto add = [&](const char *name, const char *type, std::vector<int64_t> shape,
                 nlohmann::json more) {
    nlohmann::json buffer = {{"name", name},         {"role", name},
                             {"type", type},         {"shape", shape},
                             {"local_shape", shape}, {"lifetime", "call"}};
    buffer["sharding"] = std::vector<std::vector<std::string>>(shape.size());
    buffer.update(more);
    json["buffers"].push_back(buffer);
  };
  const nlohmann::json cache = {{"lifetime", "sequence"},
                                {"init", {{"kind", "zeros"}}},
                                {"reset", "sequence"}};
  const nlohmann::json host = {{"filled_by", "host"}};
  add("h.0.keys", "f32", {2, 8, 3}, cache);
  add("h.0.values", "f32", {2, 8, 3}, cache);
  add("decode_tokens", "i32", {2, 1}, host);
  add("decode_positions", "i32", {2, 1}, host);
  add("lengths", "i32", {2}, host);
  add("next_logits", "f32", {2, 1, 256}, nlohmann::json::object());
  nlohmann::json args;
  for (auto [buffer, access] : {std::pair(0, "read"),
                                {11, "update"},
                                {12, "update"},
                                {13, "read"},
                                {14, "read"},
                                {15, "read"},
                                {16, "write"}})
    args.push_back({{"buffer", buffer}, {"access", access}});
  json["functions"].push_back(
      {{"name", "next"},
       {"entry", {{"kind", "decode"}, {"batch", 2}, {"sequence", 1}}},
       {"args", args},
       {"commands", 30},
       {"arena_bytes", 0}});
  return json;
}

TEST(Manifest, KnowsCaches) {
  StatusOr<Manifest> manifest = parseManifest(generatingExample().dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  // Keys and values of three elements of f32.
  EXPECT_EQ(manifest->cacheOf(*manifest->findFunction("next")),
            (CacheExtents{2, 8, 24}));
  EXPECT_EQ(manifest->cacheOf(*manifest->findFunction("train_step")),
            std::nullopt);
}

/// The same with two pages, of three a slot at most; their table is buffer 17.
static nlohmann::json pagedExample() {
  nlohmann::json json = generatingExample();
  const std::vector<int64_t> pool = {2, 64, 3}, entries = {2, 3};
  for (int buffer : {11, 12})
    json["buffers"][buffer]["shape"] = json["buffers"][buffer]["local_shape"] =
        pool;
  nlohmann::json table = json["buffers"][14];
  table["name"] = table["role"] = "pages";
  table["shape"] = table["local_shape"] = entries;
  json["buffers"].push_back(table);
  json["functions"][3]["args"].push_back({{"buffer", 17}, {"access", "read"}});
  return json;
}

TEST(Manifest, KnowsPages) {
  StatusOr<Manifest> manifest = parseManifest(pagedExample().dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->cacheOf(*manifest->findFunction("next")),
            (CacheExtents{2, 192, 24, 2, 2}));
}

TEST(Manifest, ChecksTablesOfPages) {
  auto message = [](const char *pointer, const nlohmann::json &value) {
    nlohmann::json json = pagedExample();
    json[nlohmann::json::json_pointer(pointer)] = value;
    StatusOr<Manifest> manifest = parseManifest(json.dump());
    return manifest.ok() ? std::string() : manifest.status().message();
  };
  using testing::HasSubstr;
  const std::vector<int64_t> three = {3, 3}, parts = {2, 60, 3};
  nlohmann::json others = pagedExample()["buffers"][17];
  others["shape"] = others["local_shape"] = three;
  EXPECT_THAT(message("/buffers/17", others),
              HasSubstr("expected caches of one shape"));
  nlohmann::json keys = pagedExample()["buffers"][11];
  keys["shape"] = keys["local_shape"] = parts;
  EXPECT_THAT(message("/buffers/11", keys),
              HasSubstr("expected caches of one shape"));
}

TEST(Manifest, ChecksFunctionsForGeneration) {
  auto message = [](const char *pointer, const nlohmann::json &value) {
    nlohmann::json json = generatingExample();
    json[nlohmann::json::json_pointer(pointer)] = value;
    StatusOr<Manifest> manifest = parseManifest(json.dump());
    return manifest.ok() ? std::string() : manifest.status().message();
  };
  using testing::HasSubstr;
  EXPECT_THAT(message("/functions/3/entry/batch", 3),
              HasSubstr("functions[3].args: expected caches of one shape "
                        "[slots, context, ...], a token of each slot in the "
                        "entry of next, which has a batch of 3"));
  EXPECT_THAT(message("/functions/3/entry/sequence", 9),
              HasSubstr("a context of at least its 9 tokens"));
  EXPECT_THAT(message("/functions/3/entry/sequence", 2),
              HasSubstr("a token of each slot"));
  EXPECT_THAT(message("/functions/3/entry/kind", "prefill"),
              HasSubstr("tokens of one slot in the entry of next"));
  EXPECT_THAT(message("/buffers/13/name", "words"),
              HasSubstr("expected decode_tokens among them, i32 that the host "
                        "fills, of shape [2, 1]"));
  EXPECT_THAT(message("/buffers/15/name", "counts"),
              HasSubstr("expected lengths among them"));
  EXPECT_THAT(
      message("/buffers/16/type", "bf16"),
      HasSubstr("expected next_logits among them, f32 of shape [2, 1]"));
  EXPECT_THAT(message("/buffers/16/role", "logits"),
              HasSubstr("no output \"next_logits\", which next must have"));
}

TEST(Manifest, NamesTheOutputsThatThereAre) {
  StatusOr<Manifest> manifest = parseManifest(example().dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  auto find = [&](const char *function, const char *name) {
    StatusOr<int64_t> found =
        manifest->findOutput("m.so", *manifest->findFunction(function), name);
    return found.ok() ? std::to_string(*found) : found.status().message();
  };
  EXPECT_EQ(find("decode", "logits"), "10");
  EXPECT_EQ(find("decode", "keys"), "9");
  EXPECT_EQ(find("decode", "probabilities"),
            "`m.so`: decode has no output \"probabilities\"; it has logits");
  EXPECT_EQ(find("eval_step", "logits"),
            "`m.so`: eval_step has no output \"logits\"; it has loss_sum, "
            "real_count");
}

TEST(Manifest, DerivesWhatFunctionsChangeAndReturn) {
  StatusOr<Manifest> manifest = parseManifest(example().dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  auto effects = [&](const char *name) {
    return manifest->effectsOf(*manifest->findFunction(name));
  };
  EXPECT_EQ(effects("train_step").changed, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(effects("train_step").returned, (std::vector<int64_t>{6, 7, 8}));
  EXPECT_EQ(effects("decode").changed, std::vector<int64_t>{9});
  EXPECT_EQ(effects("decode").returned, std::vector<int64_t>{10});
  auto changes = [&](const char *name, Lifetime lifetime) {
    return manifest->changes(*manifest->findFunction(name), lifetime);
  };
  EXPECT_TRUE(changes("train_step", Lifetime::Parameter));
  EXPECT_FALSE(changes("eval_step", Lifetime::Parameter));
  EXPECT_FALSE(changes("decode", Lifetime::Parameter));
  EXPECT_TRUE(changes("decode", Lifetime::Sequence));
}

TEST(Manifest, SpellsItsNames) {
  EXPECT_EQ(toString(Lifetime::Parameter), "parameter");
  EXPECT_EQ(toString(Lifetime::Call), "call");
  EXPECT_EQ(toString(Reset::Sequence), "sequence");
  EXPECT_EQ(toString(FilledBy::Host), "host");
  EXPECT_EQ(toString(Access::Update), "update");
  EXPECT_EQ(optimus_support::toString(ElementType::BF16), "bf16");
  EXPECT_EQ(optimus_support::elementBytes(ElementType::F64), 8);
}

TEST(Manifest, AllowsWhatIsOptionalToBeMissing) {
  json manifest = example();
  for (const char *key : {"compiler", "strategy", "optimizer", "precision", "target"})
    manifest.erase(key);
  for (const char *key : {"lower_bound_bytes", "peak_bytes", "communication"})
    manifest["functions"][0].erase(key);
  EXPECT_TRUE(parseManifest(manifest.dump()).ok());
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
