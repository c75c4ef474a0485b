//===- ToyManifest.cpp - The manifest of the model written by hand --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyModel.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

namespace optimus_toy {

namespace {

// Of logits, of the softmax and of the gradient: at most three sums of 256.
constexpr double kRounding = 28;

const char *const kScalars[] = {"lr",          "weight_decay", "clip",
                                "beta1",       "beta2",        "epsilon",
                                "beta1_power", "beta2_power"};

class ManifestWriter {
public:
  ManifestWriter(const Sizes &sizes, Fault fault,
                 const optimus_support::program::ProgramsT &programs)
      : s(sizes), fault(fault), programs(programs) {}

  Json write() const;

private:
  Json writeTensor(int param, const std::string &role) const;
  Json writeBuffers() const;
  Json writeArgs(const std::string &function) const;
  Json writeFunction(const std::string &name) const;
  Json writeStage(const std::string &name) const;

  const Sizes &s;
  const Fault fault;
  const optimus_support::program::ProgramsT &programs;
};

const char *nameOf(int param) {
  return param == 0 ? "table.weight" : "table.bias";
}

Json ManifestWriter::writeTensor(int param, const std::string &role) const {
  const bool isTable = param == 0, isParameter = role == "parameter";
  Json shape = isTable ? Json{kVocabulary, kVocabulary} : Json{kVocabulary};
  Json buffer = {
      {"name", (isParameter ? "" : role + ":") + nameOf(param)},
      {"role", role},
      {"type", "f32"},
      {"shape", shape},
      {"local_shape", isTable ? Json{s.rows, kVocabulary} : Json{kVocabulary}},
      {"sharding",
       isTable ? Json{{"row"}, Json::array()} : Json::array({Json::array()})}};
  if (!isParameter)
    buffer["of"] = param;
  if (role == "grad" || role == "copy") {
    buffer["lifetime"] = role == "grad" ? "call" : "sequence";
    return buffer;
  }
  buffer["lifetime"] = isParameter ? "parameter" : "state";
  buffer["saved"] = {{"file", isParameter ? "model" : "optimizer"},
                     {"name", (isParameter ? "" : role + ".") + nameOf(param)},
                     {"shape", shape}};
  buffer["init"] = {{"kind", "zeros"}};
  if (isParameter) {
    buffer["decay"] = isTable;
    if (isTable)
      buffer["init"] = {{"kind", "normal"}, {"stddev", 0.02}, {"stream", 3}};
  }
  return buffer;
}

Json ManifestWriter::writeBuffers() const {
  Json buffers;
  for (const char *role : {"parameter", "exp_avg", "exp_avg_sq", "grad"})
    for (int param : {0, 1})
      buffers.push_back(writeTensor(param, role));
  if (fault == Fault::Prepare)
    buffers.push_back(writeTensor(/*param=*/0, "copy"));
  for (const char *name : {"tokens", "targets"})
    buffers.push_back({{"name", name},
                       {"role", name},
                       {"type", "i32"},
                       {"lifetime", "call"},
                       {"filled_by", "data"},
                       {"shape", {kBatch, kSequence}},
                       {"local_shape", {s.batch, kSequence}},
                       {"sharding", {{"row"}, Json::array()}}});
  auto addNumber = [&](const char *name, bool isFilled) {
    Json number = {{"name", name},
                   {"role", name},
                   {"type", "f32"},
                   {"lifetime", "call"},
                   {"shape", Json::array()},
                   {"local_shape", Json::array()},
                   {"sharding", Json::array()}};
    if (isFilled)
      number["filled_by"] = "host";
    buffers.push_back(number);
  };
  for (const char *name : kScalars)
    addNumber(name, true);
  for (const char *name : {"loss_sum", "real_count", "grad_norm"})
    addNumber(name, false);
  auto addRow = [&](const std::string &name) {
    buffers.push_back({{"name", name},
                       {"role", name},
                       {"type", "f32"},
                       {"lifetime", "call"},
                       {"shape", {kVocabulary}},
                       {"local_shape", {kVocabulary}},
                       {"sharding", Json::array({Json::array()})}});
  };
  for (int slot = 0; slot != kSlots && fault == Fault::Stages; ++slot)
    addRow("slot" + std::to_string(slot));
  if (fault == Fault::Stages)
    addRow("echo");
  return buffers;
}

Json ManifestWriter::writeArgs(const std::string &function) const {
  const bool trains = function == "train_step";
  const bool isRounded = function == "grad_step" && fault != Fault::Rounding;
  const Json buffers = writeBuffers();
  Json args;
  auto add = [&](const std::string &name, const char *access,
                 bool hasRounding = false) {
    int index = 0;
    while (buffers[index]["name"] != name)
      ++index;
    Json arg = {{"buffer", index}, {"access", access}};
    if (hasRounding && isRounded)
      arg["rounding"] = kRounding;
    args.push_back(arg);
  };
  const std::string copy = std::string("copy:") + nameOf(0);
  if (function == "prepare") {
    add(nameOf(0), "read");
    add(copy, "write");
    return args;
  }
  const bool readsCopy = fault == Fault::Prepare && function == "eval_step";
  const char *changes = trains ? "update" : "read";
  for (const char *before : {"", "exp_avg:", "exp_avg_sq:"})
    for (int param : {0, 1})
      if (trains || !*before)
        add(readsCopy && param == 0 ? copy
                                    : std::string(before) + nameOf(param),
            changes);
  add("tokens", "read");
  add("targets", "read");
  if (trains)
    for (const char *name : kScalars)
      add(name, "read");
  if (function == "grad_step")
    for (int param : {0, 1})
      add(std::string("grad:") + nameOf(param), "write", true);
  add("loss_sum", "write", true);
  add("real_count", "write");
  if (trains)
    add("grad_norm", "write");
  return args;
}

Json ManifestWriter::writeFunction(const std::string &name) const {
  const auto &described = *optimus_support::program::findFunction(
      *programs.targets.front()->tables.front(), name);
  if (name == "prepare")
    return {{"name", name},
            {"entry", {{"kind", name}}},
            {"args", writeArgs(name)},
            {"commands", described.commands.size()},
            {"arena_bytes", 0}};
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
  // Of "train_step", what comes before the line.
  return {{"name", name},
          {"entry",
           {{"kind", name.substr(0, name.find('_'))},
            {"batch", kBatch},
            {"sequence", kSequence}}},
          {"args", writeArgs(name)},
          {"commands", described.commands.size()},
          {"arena_bytes", arenaBytes},
          {"lower_bound_bytes", arenaBytes},
          {"peak_bytes", {{"activation", arenaBytes}}},
          {"communication", communication}};
}

/// Of a function that one rank has.
Json ManifestWriter::writeStage(const std::string &name) const {
  using namespace optimus_support::program;
  const Json buffers = writeBuffers();
  const auto functions = functionsOf(*programs.targets.front());
  const FunctionT &function =
      **std::find_if(functions.begin(), functions.end(),
                     [&](const FunctionT *one) { return one->name == name; });
  Json args, communication = Json::array();
  for (const auto &argument : function.arguments) {
    size_t index = 0;
    while (buffers[index]["name"] != argument->buffer)
      ++index;
    const char *accesses[] = {"", "read", "write", "update"};
    args.push_back({{"buffer", index},
                    {"access", accesses[static_cast<int>(argument->access)]}});
  }
  if (name.starts_with("give"))
    communication.push_back(
        {{"axis", "row"}, {"bytes", kVocabulary * 4}, {"messages", 0}});
  return {{"name", name},     {"entry", {{"kind", "other"}}},
          {"args", args},     {"commands", function.commands.size()},
          {"arena_bytes", 0}, {"communication", communication}};
}

Json ManifestWriter::write() const {
  char hash[17];
  std::snprintf(
      hash, sizeof(hash), "%016llx",
      static_cast<unsigned long long>(s.ranks + 16 * (fault == Fault::Source)));
  Json features = Json::array();
  if (fault == Fault::Feature)
    features = {"avx512nosuch", "sse2"};
  Json functions;
  for (const char *name : {"train_step", "prepare", "eval_step", "grad_step"})
    if (fault == Fault::Prepare || name != std::string("prepare"))
      functions.push_back(writeFunction(name));
  if (fault == Fault::Stages)
    for (const char *name : kStageFunctions)
      functions.push_back(writeStage(name));
  return {
      {"format", 3},
      {"compiler", "written by hand"},
      {"source_hash", hash},
      {"model_hash", "0123456789abcdef"},
      {"target", {{"name", "cpu"}, {"cpu", "generic"}, {"features", features}}},
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
      {"buffers", writeBuffers()},
      {"functions", functions}};
}

} // namespace

std::string writeManifest(const Sizes &sizes, Fault fault,
                          const optimus_support::program::ProgramsT &programs) {
  return ManifestWriter(sizes, fault, programs).write().dump();
}

} // namespace optimus_toy
