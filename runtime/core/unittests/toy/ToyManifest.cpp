//===- ToyManifest.cpp - The manifest of the model written by hand --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyModel.h"

#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

namespace optimus_toy {

namespace {

// Of logits, of the softmax and of the gradient: at most three sums of 256.
constexpr double kRounding = 28;

Json indexed(const char *kind, int index) {
  return {{"kind", kind}, {"index", index}};
}
Json named(const char *kind, const char *name) {
  return {{"kind", kind}, {"name", name}};
}

/// Appends one list of arguments to another.
void append(Json &list, const Json &more) {
  list.insert(list.end(), more.begin(), more.end());
}

class ManifestWriter {
public:
  ManifestWriter(const Sizes &sizes, Fault fault,
                 const optimus_support::program::ProgramsT &programs)
      : s(sizes), fault(fault), programs(programs) {}

  Json write() const;

private:
  Json writeParams() const;
  Json writeArgs(const std::string &function) const;
  Json writeFunction(const std::string &name) const;

  const Sizes &s;
  const Fault fault;
  const optimus_support::program::ProgramsT &programs;
};

Json ManifestWriter::writeParams() const {
  return {{{"name", "table.weight"},
           {"hf_shape", {kVocabulary, kVocabulary}},
           {"shape", {kVocabulary, kVocabulary}},
           {"local_shape", {s.rows, kVocabulary}},
           {"sharding", {{"row"}, Json::array()}},
           {"init", {{"kind", "normal"}, {"stddev", 0.02}, {"stream", 3}}},
           {"decay", true}},
          {{"name", "table.bias"},
           {"hf_shape", {kVocabulary}},
           {"shape", {kVocabulary}},
           {"local_shape", {kVocabulary}},
           {"sharding", Json::array({Json::array()})},
           {"init", {{"kind", "zeros"}}},
           {"decay", false}}};
}

Json ManifestWriter::writeArgs(const std::string &function) const {
  Json args = {indexed("param", 0), indexed("param", 1)};
  if (function == "train_step")
    append(args, {indexed("exp_avg", 0), indexed("exp_avg", 1),
                  indexed("exp_avg_sq", 0), indexed("exp_avg_sq", 1)});
  append(args, {{{"kind", "tokens"}}, {{"kind", "targets"}}});
  Json results;
  if (function == "train_step")
    for (const char *name : {"lr", "weight_decay", "clip", "beta1", "beta2",
                             "epsilon", "beta1_power", "beta2_power"})
      args.push_back(named("scalar", name));
  if (function == "grad_step")
    results = {indexed("grad", 0), indexed("grad", 1)};
  results.push_back(named("output", "loss_sum"));
  if (function == "grad_step" && fault != Fault::Rounding)
    for (Json &result : results)
      result["rounding"] = kRounding;
  append(args, results);
  args.push_back(named("output", "real_count"));
  if (function == "train_step") {
    args.push_back(named("output", "grad_norm"));
    if (fault == Fault::Rank)
      args.push_back({{"kind", "random"}});
  }
  return args;
}

Json ManifestWriter::writeFunction(const std::string &name) const {
  const auto &described = *optimus_support::program::findFunction(
      *programs.targets.front()->tables.front(), name);
  const int64_t arenaBytes = described.arenas.front()->bytes;
  // By the rule of docs/manifest.md.
  const int64_t others = s.ranks - 1;
  const int64_t table = others * s.paddedRows * kVocabulary * 4;
  int64_t bytes = table + 2 * others * 8;
  int messages = 2;
  if (fault == Fault::Traffic)
    bytes += 4;
  if (name != "eval_step") {
    bytes += table + 2 * others * kVocabulary * 4;
    messages += 2;
  }
  if (name == "train_step") {
    bytes += 2 * others * 4;
    messages += 1;
  }
  Json communication = Json::array();
  if (others)
    communication.push_back(
        {{"axis", "row"}, {"bytes", bytes}, {"messages", messages}});
  return {{"name", name},
          {"args", writeArgs(name)},
          {"commands", described.commands.size()},
          {"arena_bytes", arenaBytes},
          {"lower_bound_bytes", arenaBytes},
          {"peak_bytes", {{"activation", arenaBytes}}},
          {"communication", communication}};
}

Json ManifestWriter::write() const {
  char hash[17];
  std::snprintf(
      hash, sizeof(hash), "%016llx",
      static_cast<unsigned long long>(s.ranks + 16 * (fault == Fault::Source)));
  Json features = Json::array();
  if (fault == Fault::Feature)
    features = {"avx512nosuch", "sse2"};
  Json input = {{"shape", {kBatch, kSequence}},
                {"local_shape", {s.batch, kSequence}},
                {"sharding", {{"row"}, Json::array()}}};
  Json functions;
  for (const char *name : {"train_step", "eval_step", "grad_step"})
    functions.push_back(writeFunction(name));
  return {{"format", 1},
          {"compiler", "written by hand"},
          {"source_hash", hash},
          {"model_hash", "0123456789abcdef"},
          {"target", {{"cpu", "generic"}, {"features", features}}},
          {"mesh", {{{"axis", "row"}, {"size", s.ranks}}}},
          {"strategy", "by hand"},
          {"model",
           {{"batch", kBatch},
            {"sequence", kSequence},
            {"vocabulary", kVocabulary}}},
          {"optimizer", "adamw"},
          {"dimensions",
           {{{"name", "vocabulary"},
             {"size", kVocabulary},
             {"padded", s.paddedRows},
             {"axes", {"row"}}},
            {{"name", "batch"},
             {"size", kBatch},
             {"padded", s.batch * s.ranks},
             {"axes", {"row"}}}}},
          {"params", writeParams()},
          {"inputs", {{"tokens", input}, {"targets", input}}},
          {"functions", functions}};
}

} // namespace

std::string writeManifest(const Sizes &sizes, Fault fault,
                          const optimus_support::program::ProgramsT &programs) {
  return ManifestWriter(sizes, fault, programs).write().dump();
}

} // namespace optimus_toy
