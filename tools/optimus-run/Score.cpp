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

/// Texts, and what is asked of the model for each.
struct ScorePlan : GenerationPlan {
  std::vector<ScoredText> texts; ///< whose requests follow each other

  /// How many requests a text has.
  static std::size_t countRequests(const ScoredText &text) {
    return std::max<std::size_t>(text.choices.size(), 1);
  }
};

/// Appends the requests of a text.
Status addRequests(const ScoredText &text, const std::string &where,
                   std::vector<GenerationRequest> &requests) {
  if (!text.choices.empty()) {
    for (const std::vector<int32_t> &choice : text.choices) {
      if (choice.empty())
        return invalidArgument(
            concat(where, ": expected a choice of at least one token"));
      requests.push_back(
          {.prompt = text.tokens, .continuation = choice, .wantsScores = true});
    }
    return okStatus();
  }
  if (text.tokens.size() < 2)
    return invalidArgument(
        concat(where,
               ": expected at least two tokens, of which all but the "
               "first are scored; found ",
               text.tokens.size()));
  requests.push_back(
      {.prompt = {text.tokens.front()},
       .continuation = {text.tokens.begin() + 1, text.tokens.end()},
       .wantsScores = true});
  return okStatus();
}

Status planScores(const ScoreOptions &options, ScorePlan &plan) {
  OPTRT_RETURN_IF_ERROR(plan.open(options.source.library));
  OPTRT_ASSIGN_OR_RETURN(
      plan.texts, readScoredTexts(options.prompts, plan.entries.vocabulary));
  for (std::size_t i = 0; i != plan.texts.size(); ++i)
    OPTRT_RETURN_IF_ERROR(addRequests(
        plan.texts[i], describePrompt(options.prompts, i), plan.requests));
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

Status scoreAll(const ScoreOptions &options, const ScorePlan &plan,
                Session &session, ControlPlane &control) {
  Generator generator(session, control, plan.entries);
  std::size_t request = 0;
  for (std::size_t i = 0; i != plan.texts.size(); ++i)
    for (std::size_t n = ScorePlan::countRequests(plan.texts[i]); n != 0; --n)
      OPTRT_RETURN_IF_ERROR(
          generator.add(plan.requests[request++])
              .status()
              .withContext(describePrompt(options.prompts, i)));
  std::vector<std::vector<double>> scores(plan.requests.size());
  while (generator.hasWork()) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<GeneratedPart> parts, generator.step());
    for (const GeneratedPart &part : parts)
      scores[part.text].push_back(part.score);
  }
  if (!control.isRoot())
    return okStatus();
  std::span<const std::vector<double>> left = scores;
  for (const ScoredText &text : plan.texts) {
    const std::size_t count = ScorePlan::countRequests(text);
    std::printf("%s\n", describeScores(text, left.first(count)).dump().c_str());
    left = left.subspan(count);
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
