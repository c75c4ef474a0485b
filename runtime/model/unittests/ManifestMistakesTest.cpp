//===- ManifestMistakesTest.cpp - What a manifest must not say ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestExample.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

using namespace optrt;
using nlohmann::json;

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
    {"Format", "/format", 1,
     "reads format 3, the library has 1; compile the model again"},
    {"HashDigits", "/model_hash", "60303AE22B998861",
     "model_hash: expected 16"},
    {"FunctionHash", "/function/hash", "none", "function.hash: expected 16"},
    {"FunctionVersion", "/function/version", "1",
     "function.version: expected an integer"},
    {"Fact", "/function/facts/heads", 6,
     "function.facts.heads: expected an object"},
    {"FactWithoutValue", "/function/incidental/dropout", json::object(),
     "function.incidental.dropout: no member \"value\""},
    {"Flag", "/function/facts/heads/flag", 6,
     "function.facts.heads.flag: expected a string"},
    {"Tile", "/placement", json{{"tile", {2, 3}}},
     "placement.tile: expected extents that divide row:2,col:2, found [2, 3]"},
    {"TileOfAnotherMesh", "/placement", json{{"tile", {2}}},
     "placement.tile: expected extents that divide row:2,col:2"},
    {"TileOfNothing", "/placement", json{{"tile", {2, 0}}},
     "placement.tile[1]: expected"},
    {"RanksOfANode", "/placement", json{{"consecutive", 0}},
     "placement.consecutive: expected"},
    {"Placement", "/placement", json::object(),
     "placement: no member \"tile\""},
    {"Precision", "/precision", "i32",
     "precision: expected f32, bf16 or f16; found i32"},
    {"Config", "/config", json::object(), "config: expected a string"},
    {"ConfigOfNoObject", "/config", "[1]",
     "config: expected the text of a JSON object"},
    {"ConfigTooDeep", "/config", std::string(100, '['),
     "config: expected the text of a JSON object"},
    {"AxisTwice", "/mesh/1/axis", "row", "\"row\" is used twice"},
    {"AxisSize", "/mesh/0/size", 0, "mesh[0].size: expected an integer"},
    {"MeshTooLarge", "/mesh/0/size", 1 << 16, "more than 65536 ranks"},
    {"Batch", "/model/batch", -1, "model.batch: expected an integer from 1"},
    {"DimensionShrinks", "/dimensions/0/padded", 5,
     "dimensions[0].padded: expected an integer from 6"},
    {"DimensionAxis", "/dimensions/0/axes/0", "data",
     "no axis \"data\" in the mesh row:2,col:2"},
    {"BufferTwice", "/buffers/1/name", "h.0.attn.c_attn.weight",
     "buffers[1].name: the name \"h.0.attn.c_attn.weight\" is used twice"},
    {"BufferUnnamed", "/buffers/1/name", "",
     "buffers[1].name: expected a name"},
    {"Role", "/buffers/1/role", "", "buffers[1].role: expected a name"},
    {"Type", "/buffers/1/type", "f8",
     "buffers[1].type: expected one of f32, f64, f16, bf16, i32, i64, i8; "
     "found "
     "\"f8\""},
    {"SavedShape",
     "/buffers/0/saved/shape",
     {192, 577},
     "buffers[0].saved: shape [192, 577] and the buffer's [192, 3, 6, 32] have "
     "different numbers of elements"},
    {"SavedTwice", "/buffers/2/saved/name", "ln_f.weight",
     "buffers[2].saved.name: the name \"ln_f.weight\" is used twice"},
    {"SavedRows",
     "/buffers/0/saved/packed",
     {{"row", 7}, {"begin", 0}},
     "buffers[0].saved.packed.row: expected rows that fill [192, 576]"},
    {"SavedBegin",
     "/buffers/0/saved/packed",
     {{"row", 576}, {"begin", 576}},
     "buffers[0].saved.packed.begin: expected an integer from 0 to 575"},
    {"SavedBeyondTheRow",
     "/buffers/0/saved/packed",
     {{"row", 576}, {"begin", 1}},
     "expected the buffers saved in \"h.0.attn.c_attn.weight\" to fill its "
     "rows "
     "of 576 elements, each once"},
    {"SavedFile", "/buffers/2/saved/file", "data",
     "buffers[2].saved.file: expected one of model, optimizer"},
    {"SavedType", "/buffers/2/type", "f64",
     "buffers[2].saved: expected what is saved to be f32, bf16 or f16"},
    {"ZeroExtent", "/buffers/0/shape/1", 0, "buffers[0].shape[1]"},
    {"ExtentNotInteger", "/buffers/0/shape/1", 3.0,
     "buffers[0].shape[1]: expected an integer, found 3.0"},
    {"ExtentTooLarge", "/buffers/0/shape/1", 18446744073709551615u,
     "buffers[0].shape[1]"},
    {"TooManyElements",
     "/buffers/0/shape",
     {1 << 20, 1 << 20, 1 << 20, 1},
     "more than 2^48 elements"},
    {"Dimensions",
     "/buffers/0/local_shape",
     {96, 3, 4},
     "they have 4, 3 and 4"},
    {"ShardTooSmall", "/buffers/0/local_shape/0", 95,
     "local_shape[0]: 2 shards of 95 do not cover the extent 192"},
    {"ShardTooLarge", "/buffers/0/local_shape/0", 97,
     "pad the extent 192 to 194"},
    {"PaddingOverflows", "/buffers/0/local_shape/0", int64_t(1) << 48,
     "buffers[0]"},
    {"AxisShardsTwice",
     "/buffers/0/sharding/1",
     {"row"},
     "the axis \"row\" shards the tensor twice"},
    {"ShardingAxis", "/buffers/0/sharding/0/0", "rows", "no axis \"rows\""},
    {"UnreducedAxis", "/buffers/3/unreduced/0", "col",
     "buffers[3].unreduced[0]: the axis \"col\" shards the tensor already"},
    {"InitKind", "/buffers/0/init/kind", "triangular",
     "expected one of normal, zeros, ones, constant, uniform; found "
     "\"triangular\""},
    {"NegativeStddev", "/buffers/0/init/stddev", -0.02, "stddev"},
    {"InfiniteStddev", "/buffers/0/init/stddev", 1e39, "stddev"},
    {"InfiniteConstant", "/buffers/3/init/value", -1e39,
     "buffers[3].init.value: expected a finite number, found"},
    {"ReservedStream", "/buffers/0/init/stream", 0xFFFFFFFFu, "stream"},
    {"InitType", "/buffers/1/type", "f64",
     "buffers[1].init: expected zeros where the type is no f32, bf16 or f16"},
    {"Decay", "/buffers/0/decay", 1, "decay: expected true or false"},
    {"Lifetime", "/buffers/2/lifetime", "step",
     "buffers[2].lifetime: expected one of parameter, state, sequence, call"},
    {"Reset", "/buffers/3/reset", "run",
     "buffers[3].reset: expected one of never, step, sequence, call"},
    {"ResetToNothing", "/buffers/8/reset", "call",
     "buffers[8].reset: expected an initial value to set it back to"},
    {"ResetToDrawn",
     "/buffers/3/init",
     {{"kind", "normal"}, {"stddev", 1}, {"stream", 3}},
     "buffers[3].reset: expected an initial value"},
    {"Owner", "/buffers/3/of", 3,
     "buffers[3].of: expected an integer from 0 to 2"},
    {"OwnerIsNoParameter", "/buffers/3/of", 2,
     "buffers[3].of: expected a parameter, found \"exp_avg:ln_f.weight\", "
     "whose lifetime is state"},
    {"FilledBy", "/buffers/5/filled_by", "nobody",
     "buffers[5].filled_by: expected one of program, data, host"},
    {"FilledState", "/buffers/2/filled_by", "host",
     "buffers[2].filled_by: expected what the host fills to have the lifetime "
     "call"},
    {"FilledShards", "/buffers/10/filled_by", "host",
     "buffers[10].local_shape: expected what the host fills to be whole"},
    {"FilledRole", "/buffers/4/role", "bytes",
     "buffers[4].role: expected tokens, targets or positions, which the data "
     "fill; found "
     "\"bytes\""},
    {"FilledType", "/buffers/4/type", "f32",
     "buffers[4].type: expected i32 of what the data fill, found f32"},
    {"FilledShape", "/model/sequence", 127,
     "buffers[4].shape: expected [batch, sequence] = [16, 127], found "
     "[16, 128]"},
    {"ArgBuffer", "/functions/0/args/0/buffer", 11,
     "functions[0].args[0].buffer: expected an integer from 0 to 10"},
    {"ArgTwice", "/functions/0/args/0/buffer", 1,
     "functions[0].args[2]: the same buffer as an earlier argument"},
    {"Access", "/functions/0/args/0/access", "readwrite",
     "functions[0].args[0].access: expected one of read, write, update; found "
     "\"readwrite\""},
    {"WritesInput", "/functions/0/args/3/access", "write",
     "functions[0].args[3].access: the buffer \"tokens\" is filled by the "
     "data; expected read, found write"},
    {"MissingOutput",
     "/functions/0/args/7",
     {{"buffer", 10}, {"access", "write"}},
     "no output \"grad_norm\", one f32, which train_step must have"},
    {"ReadOutput", "/functions/0/args/7/access", "read",
     "no output \"grad_norm\", one f32, which train_step must have"},
    {"IntegerOutput", "/buffers/6/type", "i32",
     "no output \"loss_sum\", one f32, which train_step must have"},
    {"EntryKind", "/functions/0/entry/kind", "step",
     "functions[0].entry.kind: expected one of train, eval, grad, accumulate, "
     "update, forward, prefill, decode, score, prepare, other; found \"step\""},
    {"DecodeWithoutBatch", "/functions/2/entry/kind", "decode",
     "functions[2].entry: no member \"batch\""},
    {"EntryBatch", "/functions/0/entry/batch", 8,
     "functions[0].entry.batch: expected 16, as of the tokens that train_step "
     "reads, found 8"},
    {"EntrySequence", "/functions/0/entry/sequence", 0,
     "functions[0].entry.sequence: expected an integer from 1"},
    {"ForwardWithoutLogits", "/functions/1/entry/kind", "forward",
     "no output \"logits\" or \"hidden_states\", one of which eval_step must "
     "have"},
    {"Rounding", "/functions/0/args/5/rounding", -1,
     "functions[0].args[5].rounding: expected a finite number from 0"},
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
          static const std::set<std::string> optional = {"compiler",
                                                         "strategy",
                                                         "optimizer",
                                                         "precision",
                                                         "target",
                                                         "peak_bytes",
                                                         "communication",
                                                         "lower_bound_bytes",
                                                         "schedule",
                                                         "rounding",
                                                         "of",
                                                         "unreduced",
                                                         "reset",
                                                         "filled_by",
                                                         "function",
                                                         "incidental",
                                                         "config",
                                                         "flag"};
          if (pointer.to_string().ends_with("facts") ||
              pointer.to_string().ends_with("incidental"))
            continue;
          // Parameters must have them, and so must what is reset.
          static const std::set<std::string> ofParameters = {"init", "saved",
                                                             "decay"};
          bool isOptional =
              optional.count(key) == 1 ||
              (ofParameters.count(key) == 1 && !value.contains("decay") &&
               !value.contains("reset"));
          EXPECT_EQ(parsed.ok(), isOptional) << place.to_string();
          // Without dimensions, the padded heads are what is wrong, and without
          // an initial value a reset.
          if (!parsed.ok() && key != "dimensions" && !value.contains("reset")) {
            EXPECT_NE(parsed.status().message().find("\"" + key + "\""),
                      std::string::npos)
                << parsed.status().message();
          }
        }
      };
  visit(example(), json::json_pointer());
}

TEST(Manifest, SavesNoPartialSums) {
  json manifest = example();
  manifest["buffers"][1]["unreduced"] = {"row"};
  StatusOr<Manifest> parsed = parseManifest(manifest.dump());
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find(
                "buffers[1].saved: expected what is saved to be f32, bf16 or "
                "f16, and no "
                "partial sums"),
            std::string::npos)
      << parsed.status().message();
}

TEST(Manifest, RefusesMoreThanMemoryCanHold) {
  json manifest = example();
  json large = {{"name", ""},
                {"role", "cache"},
                {"type", "f64"},
                {"shape", {int64_t(1) << 48}},
                {"local_shape", {int64_t(1) << 48}},
                {"sharding", {json::array()}},
                {"lifetime", "call"}};
  for (const char *name : {"one", "two", "three"}) {
    large["name"] = name;
    manifest["buffers"].push_back(large);
  }
  StatusOr<Manifest> parsed = parseManifest(manifest.dump());
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find(
                "with this one the buffers of a rank have more than 2^52"),
            std::string::npos)
      << parsed.status().message();
}
