//===- SamplingTest.cpp - Choosing a token by its logits ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Sampling.h"

#include "optimus-support/Philox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

using namespace optrt;
using testing::HasSubstr;

namespace {

constexpr float kInfinity = HUGE_VALF;

int32_t sample(const std::vector<float> &logits, const SamplingOptions &options,
               const std::vector<int32_t> &prompt = {},
               const std::vector<int32_t> &generated = {}) {
  StatusOr<int32_t> token = sampleToken(logits, prompt, generated, options);
  EXPECT_TRUE(token.ok()) << token.status().message();
  return token.ok() ? *token : -1;
}

/// How often each token is drawn at 4,000 places of a text.
std::vector<int> count(const std::vector<float> &logits,
                       const SamplingOptions &options) {
  std::vector<int> counts(logits.size());
  std::vector<int32_t> generated;
  SamplingOptions own = options;
  for (own.alternative = 0; own.alternative != 4000; ++own.alternative)
    ++counts[sample(logits, own)];
  return counts;
}

TEST(Sampling, GreedyTakesTheLowestOfEquals) {
  EXPECT_EQ(sample({0, 3, 1, 3}, {}), 1);
  EXPECT_EQ(sample({-kInfinity, -2, -2}, {}), 1);
}

/// Those of a library: the highest logits, and then their tokens.
std::vector<float> bestOf(const std::vector<float> &logits, std::size_t count) {
  std::vector<float> best(2 * count, -1);
  std::size_t found = 0;
  for (const ScoredToken &each : mostProbable(logits, count)) {
    best[found] = logits[each.token];
    best[count + found++] = static_cast<float>(each.token);
  }
  return best;
}

TEST(Sampling, TheBestAreEnoughToChooseBy) {
  std::minstd_rand random(3);
  std::normal_distribution<float> normal;
  std::vector<float> logits(300);
  const std::vector<SamplingOptions> all = {
      {},
      {.temperature = 1e-310},
      {.temperature = 0.7, .topK = 7},
      {.temperature = 3, .topK = 8, .topP = 0.9},
      {.temperature = 5, .topK = 8, .minP = 0.3},
      {.temperature = 2, .topK = 1}};
  for (int i = 0; i != 200; ++i) {
    for (float &logit : logits)
      logit = std::round(4 * normal(random)) / 4;
    // Fewer than there is place for.
    if (i == 7)
      std::fill(logits.begin() + 3, logits.end(), -kInfinity);
    const std::vector<float> best = bestOf(logits, 8);
    for (SamplingOptions options : all) {
      options.seed = i;
      ASSERT_EQ(options.choosesAmong(8), options.temperature != 1e-310);
      const auto token = sampleBest(best, 300, 5, options);
      ASSERT_TRUE(token.ok()) << token.status().message();
      ASSERT_EQ(*token, sample(logits, options, {}, {1, 2, 3, 4, 5})) << i;
    }
  }
}

TEST(Sampling, MoreThanTheBestIsAskedFor) {
  for (const SamplingOptions &options :
       std::vector<SamplingOptions>{{.logitBias = {{1, 1}}},
                                    {.repetitionPenalty = 1.5},
                                    {.presencePenalty = 0.1},
                                    {.frequencyPenalty = 0.1},
                                    {.copyingPenalty = 0.5},
                                    {.temperature = 1},
                                    {.temperature = 1, .topK = 9}})
    EXPECT_FALSE(options.choosesAmong(8));
  EXPECT_TRUE((SamplingOptions{.copyingPenalty = 1}.choosesAmong(8)));
  EXPECT_FALSE(SamplingOptions().choosesAmong(0));
}

TEST(Sampling, TheBestThatAreNoLogitsOrTokens) {
  auto message = [](const std::vector<float> &best) {
    return std::string(sampleBest(best, 9, 0, {}).status().message());
  };
  EXPECT_EQ(message({1, 0, 8, 2}), "");
  EXPECT_THAT(message({kInfinity, 0, 8, 2}),
              HasSubstr("the logit of token 8 is inf"));
  EXPECT_THAT(message({-kInfinity, -kInfinity, -1, -1}),
              HasSubstr("no token has a logit above minus infinity"));
  for (float token : {9.0f, -1.0f, NAN})
    EXPECT_THAT(message({1, 0, token, 2}),
                HasSubstr("expected one of the vocabulary's 9"));
}

TEST(Sampling, PenaltiesAndBiasesComeBeforeTheChoice) {
  // Positive logits are divided, negative ones multiplied.
  EXPECT_EQ(sample({2, 1.5, -1}, {.repetitionPenalty = 2}, {0}), 1);
  EXPECT_EQ(sample({-1, -1.5}, {.repetitionPenalty = 2}, {}, {0}), 1);
  // Of the prompt these two know nothing.
  EXPECT_EQ(sample({2, 1.5}, {.presencePenalty = 1}, {0}), 0);
  EXPECT_EQ(sample({2, 1.5}, {.presencePenalty = 1}, {}, {0}), 1);
  EXPECT_EQ(sample({2, 1.5}, {.frequencyPenalty = 0.3}, {}, {0}), 0);
  EXPECT_EQ(sample({2, 1.5}, {.frequencyPenalty = 0.3}, {}, {0, 0}), 1);
  EXPECT_EQ(sample({2, 1.5}, {.logitBias = {{1, 1}}}), 1);
}

TEST(Sampling, CopiesOfThePromptAreLessProbable) {
  // Once for each token, however often the prompt has it: e^-1 leaves 0 ahead.
  const SamplingOptions less = {.copyingPenalty = std::exp(-1)};
  EXPECT_EQ(sample({3, 1.5}, less, {0, 0, 0}), 0);
  EXPECT_EQ(sample({2, 1.5}, less, {0}), 1);
  // What was generated is no source.
  EXPECT_EQ(sample({2, 1.5}, less, {}, {0}), 0);
  SamplingOptions others = less;
  others.copyingExceptions = {0};
  EXPECT_EQ(sample({2, 1.5}, others, {0}), 0);
  others = less;
  others.copyingSource = std::vector<int32_t>{1};
  EXPECT_EQ(sample({2, 2.5}, others, {0}), 0);
  EXPECT_EQ(sample({2, 1.5}, {.copyingPenalty = 1}, {0}), 0);

  EXPECT_EQ(less.copiedShare(std::vector{0, 1}, std::vector{1, 1, 2, 3}), 0.5);
  others.copyingExceptions = {2, 3};
  EXPECT_EQ(others.copiedShare(std::vector{0}, std::vector{1, 0, 2, 3}), 0.5);
  EXPECT_EQ(others.copiedShare(std::vector{0}, std::vector{2, 3}), 0);
}

TEST(Sampling, DrawsByProbability) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f),
                                     std::log(0.2f)};
  const std::vector<int> counts = count(logits, {.temperature = 1, .seed = 5});
  // The same numbers each time; six standard deviations are 190 at most.
  EXPECT_NEAR(counts[0], 2000, 190);
  EXPECT_NEAR(counts[1], 1200, 174);
  EXPECT_NEAR(counts[2], 800, 152);
}

/// Divided by it, logits may be beyond all numbers.
TEST(Sampling, TheLowestTemperaturesAreGreedy) {
  for (double temperature : {1e-6, 1e-300, 5e-324}) {
    EXPECT_EQ(count({1, 9, -3}, {.temperature = temperature})[1], 4000);
    EXPECT_EQ(count({-9, -2, -3}, {.temperature = temperature})[1], 4000);
  }
}

TEST(Sampling, LeavesOutWhatIsImprobable) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.2f),
                                     std::log(0.3f)};
  EXPECT_EQ(count(logits, {.temperature = 1, .topK = 2})[1], 0);
  EXPECT_EQ(count(logits, {.temperature = 1, .topP = 0.79})[1], 0);
  EXPECT_GT(count(logits, {.temperature = 1, .topP = 0.81})[1], 0);
  EXPECT_EQ(count(logits, {.temperature = 1, .minP = 0.41})[1], 0);
  EXPECT_GT(count(logits, {.temperature = 1, .minP = 0.39})[1], 0);
  EXPECT_EQ(count(logits, {.temperature = 1, .topP = 0.4})[0], 4000);
  // What is impossible stays so.
  EXPECT_EQ(count({0, -kInfinity}, {.temperature = 1e5})[1], 0);
}

/// As docs/inference.md says, with every token sorted.
int32_t drawAmongAll(const std::vector<float> &logits,
                     const SamplingOptions &options) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (int32_t token : order)
    weights.push_back(std::exp((double(logits[token]) - logits[order[0]]) /
                               options.temperature));
  auto sum = [&] {
    return std::accumulate(weights.begin(), weights.end(), 0.);
  };
  if (options.topK > 0)
    weights.resize(options.topK);
  if (options.topP < 1) {
    const double enough = options.topP * sum();
    std::size_t kept = 0;
    for (double together = 0; together < enough; ++kept)
      together += weights[kept];
    weights.resize(kept);
  }
  while (weights.back() < options.minP)
    weights.pop_back();
  const uint64_t bits = optimus_support::philoxBlock(
      options.seed, optimus_support::kFirstReservedStream, options.alternative,
      0)[0];
  double left = double(bits >> 11) * 0x1p-53 * sum();
  std::size_t rank = 0;
  while (rank + 1 < weights.size() && (left -= weights[rank]) >= 0)
    ++rank;
  return order[rank];
}

/// Of a large vocabulary: logits about the same or far apart, some of them
/// equal or minus infinity.
TEST(Sampling, SortsNoMoreThanItNeeds) {
  std::minstd_rand random(1);
  for (float width : {0.1f, 2.0f, 200.0f}) {
    std::normal_distribution<float> values(-30, width);
    std::vector<float> logits(5000);
    for (float &logit : logits)
      logit = std::round(values(random) * 256) / 256;
    logits[17] = -kInfinity;
    for (SamplingOptions options : {SamplingOptions{},
                                    {.topK = 40},
                                    {.topK = 3000, .topP = 0.9},
                                    {.topP = 0.5},
                                    {.topP = 0.999},
                                    {.minP = 0.05},
                                    {.topP = 0.8, .minP = 0.3}})
      for (double temperature : {0.3, 1.0, 3.0}) {
        options.temperature = temperature;
        for (options.alternative = 0; options.alternative != 10;
             ++options.alternative)
          ASSERT_EQ(sample(logits, options), drawAmongAll(logits, options))
              << width << " " << options.topK << " " << options.topP << " "
              << options.minP << " " << options.alternative;
      }
  }
}

TEST(Sampling, DependsOnSeedAlternativeAndPlace) {
  const std::vector<float> logits(1000, 0);
  const SamplingOptions options = {.temperature = 1, .seed = 1};
  const int32_t token = sample(logits, options);
  EXPECT_EQ(sample(logits, options), token);
  SamplingOptions other = options;
  other.seed = 2;
  EXPECT_NE(sample(logits, other), token);
  other = options;
  other.alternative = 1;
  EXPECT_NE(sample(logits, other), token);
  EXPECT_NE(sample(logits, options, {}, {7}), token);
  // Of the prompt it sees the logits alone.
  EXPECT_EQ(sample(logits, options, {7, 8}), token);
}

TEST(Sampling, RefusesLogitsThatAreNone) {
  for (float bad : {NAN, kInfinity})
    EXPECT_THAT(
        std::string(sampleToken({{0.0f, bad}}, {}, {}, {}).status().message()),
        HasSubstr("the logit of token 1 is"));
  EXPECT_THAT(std::string(sampleToken({{-kInfinity, -kInfinity}}, {}, {}, {})
                              .status()
                              .message()),
              HasSubstr("no token has a logit above minus infinity"));
}

TEST(Sampling, ChecksOptions) {
  auto message = [](const SamplingOptions &options) {
    return std::string(options.check(10).message());
  };
  EXPECT_EQ(message({}), "");
  EXPECT_THAT(message({.temperature = NAN}), HasSubstr("the temperature is"));
  EXPECT_THAT(message({.temperature = -1}), HasSubstr("the temperature is -1"));
  EXPECT_THAT(message({.topK = -1}), HasSubstr("the top-k is -1"));
  EXPECT_THAT(message({.topP = 0}), HasSubstr("the top-p is 0"));
  EXPECT_THAT(message({.minP = 1.5}), HasSubstr("the min-p is 1.5"));
  EXPECT_THAT(message({.repetitionPenalty = 0}),
              HasSubstr("the repetition penalty is 0"));
  EXPECT_THAT(message({.copyingPenalty = 0}),
              HasSubstr("the copying penalty is 0"));
  EXPECT_THAT(message({.copyingSource = std::vector<int32_t>{3, 10}}),
              HasSubstr("the source of copies has the token 10"));
  EXPECT_THAT(message({.presencePenalty = HUGE_VAL}),
              HasSubstr("the presence penalty is"));
  EXPECT_THAT(message({.logitBias = {{10, 1}}}), HasSubstr("the token 10"));
  EXPECT_THAT(message({.logitBias = {{1, NAN}}}), HasSubstr("bias of token 1"));
}

TEST(Sampling, LogProbabilitiesAddUpToOne) {
  const std::vector<float> logits = {0, 1, -2, 30};
  double sum = 0;
  for (int32_t token = 0; token != 4; ++token)
    sum += std::exp(logProbability(logits, token));
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Sampling, TheMostProbableTokensComeFirst) {
  const std::vector<float> logits = {1, 5, -kInfinity, 5, 2};
  const std::vector<ScoredToken> best = mostProbable(logits, 3);
  ASSERT_EQ(best.size(), 3u);
  const int32_t tokens[] = {1, 3, 4};
  for (int i = 0; i != 3; ++i) {
    EXPECT_EQ(best[i].token, tokens[i]);
    EXPECT_EQ(best[i].logProbability, logProbability(logits, tokens[i]));
  }
  EXPECT_EQ(mostProbable(logits, 9).size(), logits.size());
  EXPECT_TRUE(mostProbable(logits, 0).empty());
}

} // namespace
