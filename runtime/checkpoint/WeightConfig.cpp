//===- WeightConfig.cpp - The config.json beside weights ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightConfig.h"

#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/JsonCursor.h"

#include <algorithm>
#include <cmath>
#include <string_view>

using namespace optrt;
using nlohmann::json;
using optimus_support::ElementType;
using optimus_support::JsonDocument;

namespace {

/// A fact of a library, and a config's field of the same meaning. Families have
/// different names for one.
struct Field {
  const char *fact;
  const char *name;
};

/// A name that Transformers has for an activation of ours.
struct Activation {
  std::string_view name, fact;
};

} // namespace

static constexpr Field kFields[] = {{"heads", "n_head"},
                                    {"heads", "num_attention_heads"},
                                    {"kv_heads", "num_key_value_heads"},
                                    {"norm_eps", "layer_norm_epsilon"},
                                    {"norm_eps", "layer_norm_eps"},
                                    {"norm_eps", "rms_norm_eps"},
                                    {"rope_theta", "rope_theta"},
                                    {"rope_theta", "rotary_emb_base"},
                                    {"activation", "activation_function"},
                                    {"activation", "hidden_act"},
                                    {"tied", "tie_word_embeddings"},
                                    {"pad_token", "pad_token_id"}};

/// What neither tensors nor facts show.
static constexpr const char *kOrderFields[] = {"use_parallel_residual"};

/// With "silu" the feed-forward parts of the families here are gated.
static constexpr Activation kActivations[] = {{"gelu_new", "gelu"},
                                              {"gelu_pytorch_tanh", "gelu"},
                                              {"gelu", "exact gelu"},
                                              {"silu", "swiglu"},
                                              {"swish", "swiglu"}};

static json activationOf(const json &value) {
  if (value.is_string())
    for (const Activation &activation : kActivations)
      if (activation.name == value.get_ref<const std::string &>())
        return activation.fact;
  return value;
}

/// The kind of scaled rotary positions; empty where they are not.
static std::string scalingOf(const json &config) {
  for (const char *name : {"rope_parameters", "rope_scaling"}) {
    auto found = config.find(name);
    if (found == config.end() || !found->is_object())
      continue;
    for (const char *type : {"rope_type", "type"})
      if (auto kind = found->find(type);
          kind != found->end() && kind->is_string() && *kind != "default")
        return kind->get<std::string>();
  }
  return "";
}

/// Numbers may be written in several ways; a float's was perhaps that of an
/// F32.
static bool areSame(const json &one, const json &other) {
  if (!one.is_number() || !other.is_number())
    return one == other;
  const double first = one.get<double>(), second = other.get<double>();
  return std::abs(first - second) <=
         1e-7 * std::max(std::abs(first), std::abs(second));
}

Status optrt::checkWeightConfig(const std::string &text,
                                const std::string &path,
                                const std::optional<ModelFunction> &function,
                                const std::string &own) {
  JsonDocument document(text, path, StatusCode::DataLoss);
  OPTRT_RETURN_IF_ERROR(document.status());
  const json &config = document.contents();
  if (!config.is_object())
    return dataLoss(concat(path, ": expected an object"));
  if (!function)
    return okStatus();
  std::string differs;
  auto expectSame = [&](const char *name, const json &stated,
                        const json &library) {
    if (!areSame(stated, library))
      differs += concat(differs.empty() ? "" : "; ", name, ": config.json ",
                        stated.dump(), ", library ", library.dump());
  };
  auto compare = [&](const char *name, const char *factName,
                     const json &stated) {
    auto fact = function->facts.find(factName);
    if (fact == function->facts.end() || stated.is_null())
      return;
    const bool isActivation = std::string_view(factName) == "activation";
    expectSame(name, isActivation ? activationOf(stated) : stated,
               json::parse(fact->second.value, nullptr, false));
  };
  for (const Field &field : kFields)
    if (auto found = config.find(field.name); found != config.end())
      compare(field.name, field.fact, *found);
  if (auto rope = config.find("rope_parameters");
      rope != config.end() && rope->is_object())
    if (auto base = rope->find("rope_theta"); base != rope->end())
      compare("rope_parameters.rope_theta", "rope_theta", *base);
  const json library = json::parse(own, nullptr, false);
  for (const char *name : kOrderFields)
    if (library.is_object() && library.contains(name) && config.contains(name))
      expectSame(name, config[name], library[name]);
  // Which frequencies follow from a scaling, tensors do not show.
  const bool isRotary = function->facts.contains("rope_theta");
  const bool isScaled = function->facts.contains("rope_frequencies");
  const std::string scaling = scalingOf(config);
  if (isRotary && isScaled == scaling.empty())
    differs += concat(differs.empty() ? "" : "; ", "rope_scaling: config.json ",
                      scaling.empty() ? "none" : scaling, ", library ",
                      isScaled ? "scaled" : "none");
  if (differs.empty())
    return okStatus();
  return invalidArgument(
      concat(path, " is of another model than the library: ", differs));
}

std::string optrt::withElementType(const std::string &text, ElementType type) {
  JsonDocument document(text, "", StatusCode::DataLoss);
  if (!document.status().ok() || !document.contents().is_object())
    return text;
  // Ordered, so that fields stay where they were.
  auto config = nlohmann::ordered_json::parse(text);
  const char *name = type == ElementType::BF16  ? "bfloat16"
                     : type == ElementType::F16 ? "float16"
                                                : "float32";
  // Transformers 4 reads the first, Transformers 5 the second and, where that
  // is absent, the first.
  if (config.contains("dtype"))
    config["dtype"] = name;
  if (config.contains("torch_dtype") || !config.contains("dtype"))
    config["torch_dtype"] = name;
  return config.dump(2) + "\n";
}

/// Fields of PEFT with the one value that is supported; absent is as null.
static std::vector<std::pair<const char *, std::vector<json>>>
supportedAdapterFields() {
  const json none;
  return {{"peft_type", {"LORA"}},
          {"bias", {"none", none}},
          {"use_rslora", {false, none}},
          {"use_dora", {false, none}},
          {"rank_pattern", {json::object(), none}},
          {"alpha_pattern", {json::object(), none}},
          {"modules_to_save", {none, json::array()}},
          {"layer_replication", {none}}};
}

StatusOr<AdapterScale> optrt::readAdapterScale(const std::string &text,
                                               const std::string &path) {
  JsonDocument document(text, path, StatusCode::DataLoss);
  OPTRT_RETURN_IF_ERROR(document.status());
  const json &config = document.contents();
  if (!config.is_object())
    return dataLoss(concat(path, ": expected an object"));
  auto get = [&](const char *name) {
    auto found = config.find(name);
    return found == config.end() ? json() : *found;
  };
  for (const auto &[name, values] : supportedAdapterFields())
    if (std::ranges::find(values, get(name)) == values.end())
      return invalidArgument(concat(path, ": ", name, " is ", get(name).dump(),
                                    "; supported: ", values.front().dump()));
  const json rank = get("r"), alpha = get("lora_alpha"),
             first = get("fan_in_fan_out");
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1)
    return invalidArgument(
        concat(path, ": expected r to be a rank, found ", rank.dump()));
  if (!alpha.is_number() || !std::isfinite(alpha.get<float>()))
    return invalidArgument(concat(
        path, ": expected lora_alpha to be a number, found ", alpha.dump()));
  return AdapterScale{alpha.get<double>() / double(rank.get<int64_t>()),
                      first.is_boolean() && first.get<bool>()};
}

Status optrt::checkAdapterConfig(const std::string &text,
                                 const std::string &path,
                                 const std::string &own) {
  OPTRT_ASSIGN_OR_RETURN(const AdapterScale found,
                         readAdapterScale(text, path));
  OPTRT_ASSIGN_OR_RETURN(const AdapterScale library,
                         readAdapterScale(own, "the library's manifest"));
  const json stated = json::parse(text), expected = json::parse(own);
  std::string differs;
  for (const char *name : {"r", "lora_alpha"})
    if (!areSame(stated[name], expected[name]))
      differs +=
          concat(differs.empty() ? "" : "; ", name, ": ", kAdapterConfigFile,
                 " ", stated[name].dump(), ", library ", expected[name].dump());
  if (found.isFanInFirst != library.isFanInFirst)
    differs += concat(differs.empty() ? "" : "; ",
                      "fan_in_fan_out: ", kAdapterConfigFile, " ",
                      found.isFanInFirst, ", library ", library.isFanInFirst);
  if (differs.empty())
    return okStatus();
  return invalidArgument(
      concat(path, " is of other adapters than the library: ", differs));
}

std::string optrt::withBaseModel(const std::string &text,
                                 const std::string &base) {
  auto config = nlohmann::ordered_json::parse(text);
  config["base_model_name_or_path"] = base;
  return config.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}
