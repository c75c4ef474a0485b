//===- Score.cpp - optimus-run score --------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generation.h"
#include "Prompts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace optrt;

namespace optimus_run {
namespace {

/// Tokens that are scored by themselves, from `first` on.
struct Window {
  std::vector<int32_t> tokens;
  int64_t first = 0;
};

/// Texts, and what is asked of the model for each.
struct ScorePlan : GenerationPlan {
  std::vector<ScoredText> texts;
  int64_t context = 0; ///< tokens of a window
  std::optional<int64_t> stride;

  /// A window for each choice, behind the text; else windows that ask for
  /// each token of it but the first once, behind as many as its window has.
  std::vector<Window> windowsOf(const ScoredText &text) const {
    std::vector<Window> windows;
    const int64_t size = std::ssize(text.tokens);
    for (const std::vector<int32_t> &choice : text.choices) {
      windows.push_back({text.tokens, size});
      windows.back().tokens.insert(windows.back().tokens.end(), choice.begin(),
                                   choice.end());
    }
    int64_t asked = text.choices.empty() ? 1 : size;
    for (int64_t begin = 0; asked < size; begin += stride.value_or(size)) {
      // The last one is put nowhere.
      const int64_t end = stride ? std::min(begin + context + 1, size) : size;
      windows.push_back(
          {{text.tokens.begin() + begin, text.tokens.begin() + end},
           asked - begin});
      asked = end;
    }
    return windows;
  }

  Status check(const ScoredText &text) const {
    for (const std::vector<int32_t> &choice : text.choices)
      if (choice.empty())
        return invalidArgument("expected a choice of at least one token");
    if (!text.choices.empty() && text.tokens.empty())
      return invalidArgument("expected at least one token before the choices");
    if (text.choices.empty() && text.tokens.size() < 2)
      return invalidArgument(
          concat("expected at least two tokens, of which all but the first are "
                 "scored; found ",
                 text.tokens.size()));
    for (const Window &window : windowsOf(text))
      OPTRT_RETURN_IF_ERROR(entries.checkScored(window.tokens, window.first)
                                .withAdvice(text.choices.empty() && !stride
                                                ? "--stride divides a longer "
                                                  "text into windows"
                                                : ""));
    return okStatus();
  }
};

Status planScores(const ScoreOptions &options, ScorePlan &plan) {
  OPTRT_RETURN_IF_ERROR(
      plan.open(options.source.library, options.source.ranks));
  OPTRT_ASSIGN_OR_RETURN(plan.functions,
                         plan.entries.scoringFunctions(options.source.library));
  const int64_t most = plan.entries.cache.context;
  plan.context = options.context.value_or(most);
  plan.stride = options.stride;
  if (options.context && !plan.stride)
    plan.stride = plan.context;
  if (plan.context < 1 || plan.context > most)
    return invalidArgument(concat("--context: expected from 1 to the ", most,
                                  " tokens that the library was compiled for, "
                                  "found ",
                                  plan.context));
  if (plan.stride && (*plan.stride < 1 || *plan.stride > plan.context))
    return invalidArgument(concat("--stride: expected from 1 to the ",
                                  plan.context, " tokens of a window, found ",
                                  *plan.stride));
  OPTRT_ASSIGN_OR_RETURN(
      plan.texts, readScoredTexts(options.prompts, plan.entries.vocabulary));
  for (std::size_t i = 0; i != plan.texts.size(); ++i) {
    const ScoredText &text = plan.texts[i];
    OPTRT_RETURN_IF_ERROR(
        plan.check(text).withContext(describePrompt(options.prompts, i)));
    // What processes compare.
    plan.requests.push_back({.prompt = text.tokens, .stops = text.choices});
  }
  return okStatus();
}

/// Of one text, given the scores of its requests.
nlohmann::ordered_json
describeScores(const ScoredText &text,
               std::span<const std::vector<double>> scores) {
  nlohmann::ordered_json line;
  std::vector<double> sums, means;
  for (const std::vector<double> &each : scores) {
    sums.push_back(std::accumulate(each.begin(), each.end(), 0.0));
    means.push_back(sums.back() / static_cast<double>(each.size()));
  }
  if (text.choices.empty()) {
    line["tokens"] = scores[0].size();
    line["log_probability"] = sums[0];
    line["perplexity"] = std::exp(-means[0]);
    line["log_probabilities"] = scores[0];
    return line;
  }
  // The first of equals.
  auto findBest = [](const std::vector<double> &values) {
    return std::max_element(values.begin(), values.end()) - values.begin();
  };
  line["log_probabilities"] = sums;
  line["best"] = findBest(sums);
  line["best_by_length"] = findBest(means);
  return line;
}

/// The scores of a text's tokens, or of each choice.
StatusOr<std::vector<std::vector<double>>>
scoreText(const ScorePlan &plan, const ScoredText &text, Scorer &scorer) {
  std::vector<std::vector<double>> scores;
  for (const Window &window : plan.windowsOf(text)) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<double> found,
                           scorer.score(window.tokens, window.first));
    if (scores.empty() || !text.choices.empty())
      scores.emplace_back();
    scores.back().insert(scores.back().end(), found.begin(), found.end());
  }
  return scores;
}

Status scoreAll(const ScoreOptions &options, const ScorePlan &plan,
                Session &session, ControlPlane &control) {
  Scorer scorer(session, control, plan.entries);
  for (std::size_t i = 0; i != plan.texts.size(); ++i) {
    auto scores = scoreText(plan, plan.texts[i], scorer);
    if (!scores.ok())
      return scores.status().withContext(describePrompt(options.prompts, i));
    if (control.isRoot())
      std::printf("%s\n",
                  describeScores(plan.texts[i], *scores).dump().c_str());
  }
  return okStatus();
}

} // namespace

Status score(const ScoreOptions &options, World &world) {
  ScorePlan plan;
  return withGeneration(planScores(options, plan), plan, options.source, world,
                        [&](Session &session) {
                          return scoreAll(options, plan, session,
                                          *world.control);
                        });
}

} // namespace optimus_run
