//===- Sampling.cpp - Choosing a token by its logits ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Sampling.h"

#include "CheckToken.h"

#include "optimus-support/Philox.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace optrt;

namespace {
/// The stream of tokens that are drawn: no model's.
constexpr uint32_t kSamplingStream = optimus_support::kFirstReservedStream;
/// The steps of a stream of random numbers.
constexpr uint64_t kMostAlternatives = uint64_t(1) << 48;

/// Tokens with what they weigh, the heaviest first.
struct Candidate {
  int32_t token;
  double logit;
  double weight = 0;
};
} // namespace

Status SamplingOptions::check(int64_t vocabulary) const {
  struct Range {
    const char *name;
    double value, least, most;
    const char *expected;
  };
  const Range ranges[] = {
      {"temperature", temperature, 0, 1e6, "a number from 0"},
      {"top-k", double(topK), 0, 1e15, "a whole number from 0"},
      {"top-p", topP, 1e-9, 1, "a number above 0, up to 1"},
      {"min-p", minP, 0, 1, "a number from 0 to 1"},
      {"repetition penalty", repetitionPenalty, 1e-6, 1e6, "a number above 0"},
      {"presence penalty", presencePenalty, -1e6, 1e6, "a finite number"},
      {"frequency penalty", frequencyPenalty, -1e6, 1e6, "a finite number"},
      {"copying penalty", copyingPenalty.value_or(1), 1e-300, 1e6,
       "a number above 0"},
  };
  for (const Range &range : ranges)
    // What is no number is in no range.
    if (!(range.value >= range.least && range.value <= range.most))
      return invalidArgument(concat("the ", range.name, " is ", range.value,
                                    "; expected ", range.expected));
  for (const auto &[token, bias] : logitBias) {
    OPTRT_RETURN_IF_ERROR(
        checkToken(token, vocabulary, "a bias is for the token"));
    if (!std::isfinite(bias))
      return invalidArgument(concat("the bias of token ", token, " is ", bias,
                                    "; expected a finite number"));
  }
  auto checkTokens = [&](const char *where, const auto &tokens) -> Status {
    for (int32_t token : tokens)
      OPTRT_RETURN_IF_ERROR(checkToken(token, vocabulary, "the ", where,
                                       " of copies has the token"));
    return okStatus();
  };
  if (copyingSource)
    OPTRT_RETURN_IF_ERROR(checkTokens("source", *copyingSource));
  OPTRT_RETURN_IF_ERROR(checkTokens("list of exceptions", copyingExceptions));
  if (alternative >= kMostAlternatives)
    return invalidArgument(concat("the alternative is ", alternative,
                                  "; expected a number below 2^48"));
  return okStatus();
}

std::set<int32_t>
SamplingOptions::copyable(std::span<const int32_t> prompt) const {
  const std::span<const int32_t> source =
      copyingSource ? *copyingSource : prompt;
  std::set<int32_t> tokens(source.begin(), source.end());
  for (int32_t exception : copyingExceptions)
    tokens.erase(exception);
  return tokens;
}

double SamplingOptions::copiedShare(std::span<const int32_t> prompt,
                                    std::span<const int32_t> generated) const {
  const std::set<int32_t> source = copyable(prompt);
  int64_t copies = 0, all = 0;
  for (int32_t token : generated) {
    copies += source.contains(token);
    all += !copyingExceptions.contains(token);
  }
  return static_cast<double>(copies) /
         static_cast<double>(std::max<int64_t>(all, 1));
}

/// Logits as biases and penalties leave them.
static std::vector<double> penalize(std::span<const float> logits,
                                    std::span<const int32_t> prompt,
                                    std::span<const int32_t> generated,
                                    const SamplingOptions &options) {
  std::vector<double> values(logits.begin(), logits.end());
  for (const auto &[token, bias] : options.logitBias)
    values[token] += bias;
  std::map<int32_t, int64_t> counts;
  for (int32_t token : generated)
    ++counts[token];
  if (options.repetitionPenalty != 1) {
    std::map<int32_t, int64_t> seen = counts;
    for (int32_t token : prompt)
      ++seen[token];
    for (const auto &[token, count] : seen)
      values[token] = values[token] > 0
                          ? values[token] / options.repetitionPenalty
                          : values[token] * options.repetitionPenalty;
  }
  for (const auto &[token, count] : counts)
    values[token] -= options.presencePenalty +
                     options.frequencyPenalty * static_cast<double>(count);
  if (options.copyingPenalty) {
    const double penalty = std::log(*options.copyingPenalty);
    for (int32_t token : options.copyable(prompt))
      values[token] += penalty;
  }
  return values;
}

/// Sets weights to e^(logit − highest), and returns their sum.
static double weigh(std::span<Candidate> candidates) {
  double sum = 0;
  for (Candidate &each : candidates)
    sum += each.weight = std::exp(each.logit - candidates.front().logit);
  return sum;
}

/// The first candidates that top-k, top-p and min-p leave.
static std::size_t countKept(std::span<Candidate> candidates,
                             const SamplingOptions &options) {
  std::size_t kept = candidates.size();
  if (options.topK > 0)
    kept = std::min(kept, static_cast<std::size_t>(options.topK));
  if (options.topP < 1) {
    const double sum = weigh(candidates.first(kept));
    double together = 0;
    for (std::size_t i = 0; i != kept; ++i) {
      together += candidates[i].weight;
      if (together >= options.topP * sum) {
        kept = i + 1;
        break;
      }
    }
  }
  // The heaviest weighs 1.
  weigh(candidates.first(kept));
  while (kept > 1 && candidates[kept - 1].weight < options.minP)
    --kept;
  return kept;
}

Status optrt::checkLogit(int64_t token, float logit) {
  if (std::isnan(logit) || logit == HUGE_VALF)
    return invalidArgument(
        concat("the logit of token ", token, " is ", logit,
               ": the parameters are not those of a model, or diverged"));
  return okStatus();
}

static Status noToken() {
  return invalidArgument("no token has a logit above minus infinity");
}

static Status checkLogits(std::span<const float> logits) {
  for (std::size_t token = 0; token != logits.size(); ++token)
    OPTRT_RETURN_IF_ERROR(
        checkLogit(static_cast<int64_t>(token), logits[token]));
  return okStatus();
}

bool SamplingOptions::choosesAmong(int64_t best) const {
  return best > 0 && logitBias.empty() && repetitionPenalty == 1 &&
         presencePenalty == 0 && frequencyPenalty == 0 &&
         copyingPenalty.value_or(1) == 1 &&
         (temperature == 0 || (topK > 0 && topK <= best));
}

/// Whether the highest logit is chosen: so low a temperature leaves it alone,
/// too.
static bool isGreedy(const SamplingOptions &options, double highest) {
  return options.temperature == 0 ||
         !std::isfinite(highest / options.temperature);
}

/// Draws one of these, the heaviest first, as token `index` of its text.
static int32_t draw(std::vector<Candidate> candidates, std::size_t index,
                    const SamplingOptions &options) {
  const std::size_t kept = countKept(candidates, options);
  const double sum = weigh(std::span(candidates).first(kept));
  const uint64_t bits = optimus_support::philoxBlock(
      options.seed, kSamplingStream, options.alternative, index)[0];
  double left = static_cast<double>(bits >> 11) * 0x1p-53 * sum;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    left -= candidates[i].weight;
    if (left < 0)
      return candidates[i].token;
  }
  return candidates[kept - 1].token;
}

StatusOr<int32_t> optrt::sampleBest(std::span<const float> best,
                                    int64_t vocabulary,
                                    std::size_t numGenerated,
                                    const SamplingOptions &options) {
  const std::size_t count = best.size() / 2;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i != count; ++i) {
    const float logit = best[i], token = best[count + i];
    if (logit == -HUGE_VALF)
      break;
    if (!(token >= 0 && token < static_cast<float>(vocabulary)))
      return internal(concat("the library has the token ", token,
                             " among the most probable ones; expected one of "
                             "the vocabulary's ",
                             vocabulary));
    OPTRT_RETURN_IF_ERROR(checkLogit(static_cast<int64_t>(token), logit));
    candidates.push_back({static_cast<int32_t>(token), logit});
  }
  if (candidates.empty())
    return noToken();
  if (isGreedy(options, candidates.front().logit))
    return candidates.front().token;
  candidates.resize(
      std::min(candidates.size(), static_cast<std::size_t>(options.topK)));
  for (Candidate &each : candidates)
    each.logit /= options.temperature;
  return draw(std::move(candidates), numGenerated, options);
}

StatusOr<int32_t> optrt::sampleToken(std::span<const float> logits,
                                     std::span<const int32_t> prompt,
                                     std::span<const int32_t> generated,
                                     const SamplingOptions &options) {
  OPTRT_RETURN_IF_ERROR(checkLogits(logits));
  const std::vector<double> values =
      penalize(logits, prompt, generated, options);
  auto isHigher = [&](int32_t a, int32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto best = std::min_element(order.begin(), order.end(), isHigher);
  if (best == order.end() || values[*best] == -HUGE_VAL)
    return noToken();
  if (isGreedy(options, values[*best]))
    return *best;
  // Most of a large vocabulary is left out, and need not be sorted.
  auto end = order.end();
  if (options.topK > 0 && options.topK < static_cast<int64_t>(order.size())) {
    end = order.begin() + options.topK;
    std::partial_sort(order.begin(), end, order.end(), isHigher);
  } else {
    std::sort(order.begin(), end, isHigher);
  }
  std::vector<Candidate> candidates;
  for (auto token = order.begin(); token != end; ++token)
    if (values[*token] != -HUGE_VAL)
      candidates.push_back({*token, values[*token] / options.temperature});
  return draw(std::move(candidates), generated.size(), options);
}

namespace {
/// Makes logarithms of probabilities of a token's logit among all.
class LogSoftmax {
public:
  explicit LogSoftmax(std::span<const float> logits)
      : most(*std::max_element(logits.begin(), logits.end())) {
    double sum = 0;
    for (float logit : logits)
      sum += std::exp(logit - most);
    logSum = std::log(sum);
  }
  double operator()(double logit) const { return logit - most - logSum; }

private:
  double most, logSum;
};
} // namespace

StatusOr<std::vector<double>> optrt::scoreTokens(
    std::span<const float> logits, std::span<const int32_t> prompt,
    std::span<const int32_t> generated, const SamplingOptions &options) {
  OPTRT_RETURN_IF_ERROR(checkLogits(logits));
  std::vector<double> scores = penalize(logits, prompt, generated, options);
  const LogSoftmax logSoftmax(logits);
  for (double &score : scores)
    score = logSoftmax(score);
  return scores;
}

double optrt::logProbability(std::span<const float> logits, int32_t token) {
  return LogSoftmax(logits)(logits[token]);
}

std::vector<ScoredToken> optrt::mostProbable(std::span<const float> logits,
                                             int64_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const LogSoftmax logSoftmax(logits);
  std::vector<ScoredToken> best;
  for (auto token = order.begin(); token != end; ++token)
    best.push_back({*token, logSoftmax(logits[*token])});
  return best;
}
