//===- WeightMatch.cpp - The weights of parameters ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightMatch.h"

#include "CheckpointFolder.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <fnmatch.h>
#include <ranges>
#include <string_view>
#include <unordered_map>

using namespace optrt;
using optimus_support::shapeToString;

static constexpr std::string_view kPrefixes[] = {"transformer.", "model.",
                                                 "bert.", "gpt_neox."};

std::span<const std::string_view> optrt::classPrefixes() { return kPrefixes; }

/// Ends of the names of tensors that hold nothing learned, or belong to heads
/// for other tasks.
static constexpr std::string_view kUnused[] = {"attn.bias",
                                               "attn.masked_bias",
                                               "attention.bias",
                                               "attention.masked_bias",
                                               "rotary_emb.inv_freq",
                                               "embeddings.position_ids",
                                               "pooler.dense.weight",
                                               "pooler.dense.bias",
                                               "cls.seq_relationship.weight",
                                               "cls.seq_relationship.bias"};

namespace {

/// A tensor that some classes write a second time, under the name of their
/// head.
struct KnownTie {
  std::string_view copy, original; ///< ends of names
};

} // namespace

static constexpr KnownTie kTies[] = {
    {"lm_head.weight", "wte.weight"},
    {"lm_head.weight", "embed_tokens.weight"},
    {"embed_out.weight", "embed_in.weight"},
    {"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"}};

/// A row for each position; a shorter sequence needs fewer.
static bool isTableOfPositions(std::string_view name) {
  return name.ends_with("wpe.weight") ||
         name.ends_with("position_embeddings.weight");
}

/// A row, or an element, for each token of the vocabulary.
static bool isTableOfTokens(std::string_view name) {
  return std::ranges::any_of(kTies, [&](const KnownTie &tie) {
    return name.ends_with(tie.copy) || name.ends_with(tie.original);
  });
}

static std::string join(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

namespace {

class Matcher {
public:
  Matcher(const std::string &path, std::span<const StoredWeight> weights)
      : path(path), weights(weights), isTaken(weights.size()) {
    for (size_t i = 0; i != weights.size(); ++i)
      numbers.emplace(weights[i].info.name, i);
  }

  Status take(std::span<const TensorInfo> params);
  Status leave(std::span<const TensorInfo> params,
               std::span<const std::string> ignored);
  WeightMatch finish() && { return std::move(match); }

private:
  std::optional<size_t> find(std::string_view name) const;
  std::optional<size_t> findBehindPrefix(const std::string &name) const;
  Status checkTaken(const StoredWeight &weight, const TensorInfo &param);
  std::optional<size_t> findOriginal(std::string_view copy,
                                     std::span<const TensorInfo> params) const;
  Status refuse(const std::string &what) const {
    return invalidArgument(
        concat("the weights in ", path, " are of another model: ", what));
  }

  const std::string &path;
  std::span<const StoredWeight> weights;
  std::vector<bool> isTaken;
  std::unordered_map<std::string_view, size_t> numbers;
  WeightMatch match;
};

} // namespace

std::optional<size_t> Matcher::find(std::string_view name) const {
  auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

std::optional<size_t> Matcher::findBehindPrefix(const std::string &name) const {
  if (std::optional<size_t> found = find(name))
    return found;
  if (isAdapterTensor(name)) {
    const std::string_view inner =
        std::string_view(name).substr(kAdapterPrefix.size());
    for (std::string_view prefix : kPrefixes) {
      if (std::optional<size_t> found =
              find(concat(kAdapterPrefix, prefix, inner)))
        return found;
      if (inner.starts_with(prefix))
        if (std::optional<size_t> found =
                find(concat(kAdapterPrefix, inner.substr(prefix.size()))))
          return found;
    }
    return std::nullopt;
  }
  for (std::string_view prefix : kPrefixes) {
    if (std::optional<size_t> found = find(concat(prefix, name)))
      return found;
    if (name.starts_with(prefix))
      if (std::optional<size_t> found =
              find(std::string_view(name).substr(prefix.size())))
        return found;
  }
  return std::nullopt;
}

/// What norms' parameters were called by TensorFlow, and still are in the first
/// folders of BERT; empty for others.
///
///   x.LayerNorm.weight -> x.LayerNorm.gamma
///   x.LayerNorm.bias   -> x.LayerNorm.beta
static std::string olderName(std::string_view name) {
  for (auto [now, before] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                             {"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now)) {
      name.remove_suffix(std::string_view(now).size());
      return concat(name, before);
    }
  return "";
}

Status Matcher::checkTaken(const StoredWeight &weight,
                           const TensorInfo &param) {
  if (!findWeightType(weight.type))
    return refuse(concat(weight.info.name, " has elements of type ",
                         weight.type, "; expected F32, BF16 or F16"));
  const std::vector<int64_t> &found = weight.info.shape;
  if (found == param.shape)
    return okStatus();
  const bool isTable = isTableOfPositions(param.name) && found.size() == 2 &&
                       param.shape.size() == 2 && found[1] == param.shape[1];
  if (isTable && found[0] > param.shape[0]) {
    match.notes.push_back(concat(weight.info.name, ": the first ",
                                 param.shape[0], " of ", found[0],
                                 " positions are used"));
    return okStatus();
  }
  if (isTable)
    return refuse(concat(weight.info.name, " has ", found[0],
                         " positions, the model's sequences have ",
                         param.shape[0], " tokens; build it with --seq ",
                         found[0], " or less"));
  if (isTableOfTokens(param.name) && found.size() == param.shape.size() &&
      std::ranges::equal(found | std::views::drop(1),
                         param.shape | std::views::drop(1)))
    return refuse(concat(weight.info.name, " has ", found[0],
                         " tokens, the library's model ", param.shape[0]))
        .withAdvice(concat("python3 -m optimus.models from-hf ", path,
                           found[0] < param.shape[0]
                               ? concat(" --padded-vocabulary ", param.shape[0])
                               : "",
                           " writes the model to compile"));
  return refuse(concat(weight.info.name, " has shape ", shapeToString(found),
                       ", the model's is ", shapeToString(param.shape)));
}

Status Matcher::take(std::span<const TensorInfo> params) {
  std::vector<std::string> missing;
  const bool beginsAdapters =
      std::ranges::none_of(weights, [](const StoredWeight &weight) {
        return isAdapterTensor(weight.info.name);
      });
  for (const TensorInfo &param : params) {
    if (beginsAdapters && isAdapterTensor(param.name)) {
      match.tensors.push_back(WeightMatch::kNone);
      continue;
    }
    std::optional<size_t> found = findBehindPrefix(param.name);
    if (std::string older = olderName(param.name); !found && !older.empty())
      found = findBehindPrefix(older);
    // A tensor is of one parameter.
    if (!found || isTaken[*found]) {
      missing.push_back(param.name);
      continue;
    }
    isTaken[*found] = true;
    match.tensors.push_back(*found);
  }
  if (!missing.empty())
    return refuse(concat("they lack ", missing.size(), " of its ",
                         params.size(), " parameters: ", join(missing)));
  for (size_t i = 0; i != params.size(); ++i)
    if (match.tensors[i] != WeightMatch::kNone)
      OPTRT_RETURN_IF_ERROR(checkTaken(weights[match.tensors[i]], params[i]));
  if (std::ranges::find(match.tensors, WeightMatch::kNone) !=
      match.tensors.end())
    match.notes.push_back(
        concat(path, " has no adapter: the library's begins anew"));
  return okStatus();
}

/// The tensor that another one repeats, where the model has only the first.
std::optional<size_t>
Matcher::findOriginal(std::string_view copy,
                      std::span<const TensorInfo> params) const {
  for (const KnownTie &tie : kTies)
    if (copy.ends_with(tie.copy))
      for (size_t i = 0; i != params.size(); ++i)
        if (std::string_view(params[i].name).ends_with(tie.original))
          return match.tensors[i];
  return std::nullopt;
}

Status Matcher::leave(std::span<const TensorInfo> params,
                      std::span<const std::string> ignored) {
  std::vector<std::string> unused, unknown;
  for (size_t i = 0; i != weights.size(); ++i) {
    if (isTaken[i])
      continue;
    const StoredWeight &weight = weights[i];
    const std::string &name = weight.info.name;
    if (std::ranges::any_of(ignored,
                            [&](const std::string &pattern) {
                              return fnmatch(pattern.c_str(), name.c_str(),
                                             0) == 0;
                            }) ||
        std::ranges::any_of(kUnused, [&](std::string_view end) {
          return concat(".", name).ends_with(concat(".", end));
        }))
      unused.push_back(name);
    else if (std::optional<size_t> original = findOriginal(name, params);
             original && findWeightType(weight.type) &&
             weights[*original].info.shape == weight.info.shape)
      match.ties.push_back({i, *original});
    else
      unknown.push_back(name);
  }
  if (!unknown.empty() &&
      std::ranges::none_of(params,
                           [](const TensorInfo &param) {
                             return isAdapterTensor(param.name);
                           }) &&
      std::ranges::all_of(unknown, isAdapterTensor))
    return refuse("they have adapters, the library none")
        .withAdvice(kAdapterAdvice);
  if (!unknown.empty())
    return refuse(concat("they have ", unknown.size(),
                         unknown.size() == 1 ? " tensor" : " tensors",
                         " without a parameter: ", join(unknown)))
        .withAdvice("--ignore PATTERN leaves tensors out");
  if (!unused.empty())
    match.notes.push_back(concat(path, ": not used: ", join(unused)));
  return okStatus();
}

StatusOr<WeightMatch> optrt::matchWeights(
    const std::string &path, std::span<const StoredWeight> weights,
    std::span<const TensorInfo> params, std::span<const std::string> ignored) {
  Matcher matcher(path, weights);
  OPTRT_RETURN_IF_ERROR(matcher.take(params));
  OPTRT_RETURN_IF_ERROR(matcher.leave(params, ignored));
  return std::move(matcher).finish();
}
