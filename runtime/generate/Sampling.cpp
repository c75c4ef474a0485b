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
#include <utility>

using namespace optrt;

namespace {
/// The stream of tokens that are drawn: no model's.
constexpr uint32_t kSamplingStream = optimus_support::kFirstReservedStream;
/// The steps of a stream of random numbers.
constexpr uint64_t kMostAlternatives = uint64_t(1) << 48;

struct Candidate {
  int32_t token;
  double value;
};

/// Tokens from the highest value on, of equal ones by number, and their
/// weights: e^(value / temperature), that of the highest being 1. Tokens of
/// about one value share a place. Only a place where something ends is sorted,
/// and only places up to it are weighed.
class Ranking {
public:
  Ranking(std::span<const double> values, double highest, double temperature);

  /// Tokens above minus infinity.
  std::size_t size() const { return begins[kPlaces]; }
  double weigh(int32_t token) const {
    return std::exp(values[token] / temperature - highest / temperature);
  }
  int32_t at(std::size_t rank) {
    const int place = placeOf(rank);
    sort(place);
    return order[rank];
  }
  /// Of the first tokens.
  double sumOf(std::size_t count);
  /// How many of the first tokens there are until their sum is at least `sum`,
  /// or above it; `most` where it never is.
  std::size_t reach(double sum, bool isAbove, std::size_t most);
  /// Tokens that weigh at least so much.
  std::size_t countFrom(double weight) const;

private:
  static constexpr int kPlaces = 255;

  int placeOf(std::size_t rank) const {
    return static_cast<int>(std::upper_bound(begins, begins + kPlaces, rank) -
                            begins - 1);
  }
  double weighPlace(int place);
  void sort(int place);

  std::span<const double> values;
  double highest, temperature;
  std::vector<int32_t> order; ///< by places, within one by number or sorted
  std::size_t begins[kPlaces + 1] = {};
  double sums[kPlaces] = {};
  int weighed = 0; ///< places
  bool isSorted[kPlaces] = {};
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
  const bool countsTokens = options.repetitionPenalty != 1 ||
                            options.presencePenalty != 0 ||
                            options.frequencyPenalty != 0;
  std::map<int32_t, int64_t> counts;
  for (int32_t token : countsTokens ? generated : std::span<const int32_t>())
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

Ranking::Ranking(std::span<const double> values, double highest,
                 double temperature)
    : values(values), highest(highest), temperature(temperature) {
  constexpr double kPlacesOfUnit = 16, kMostPlacesOfUnit = 1e9;
  const double ofUnit =
      std::min(kPlacesOfUnit / temperature, kMostPlacesOfUnit);
  // Behind the last place there is minus infinity.
  std::vector<uint8_t> places(values.size());
  std::size_t counts[kPlaces + 1] = {};
  for (std::size_t token = 0; token != values.size(); ++token) {
    const double below = (highest - values[token]) * ofUnit;
    const int place = below < kPlaces - 1 ? static_cast<int>(below)
                      : below < HUGE_VAL  ? kPlaces - 1
                                          : kPlaces;
    places[token] = static_cast<uint8_t>(place);
    ++counts[place];
  }
  std::size_t next[kPlaces + 1] = {};
  for (int place = 0; place != kPlaces; ++place)
    next[place + 1] = begins[place + 1] = begins[place] + counts[place];
  order.resize(values.size());
  for (std::size_t token = 0; token != values.size(); ++token)
    order[next[places[token]]++] = static_cast<int32_t>(token);
}

/// All places before it have been weighed.
double Ranking::weighPlace(int place) {
  if (place == weighed) {
    for (std::size_t i = begins[place]; i != begins[place + 1]; ++i)
      sums[place] += weigh(order[i]);
    ++weighed;
  }
  return sums[place];
}

void Ranking::sort(int place) {
  if (std::exchange(isSorted[place], true))
    return;
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(begins[place]),
            order.begin() + static_cast<std::ptrdiff_t>(begins[place + 1]),
            [&](int32_t a, int32_t b) {
              return values[a] != values[b] ? values[a] > values[b] : a < b;
            });
}

double Ranking::sumOf(std::size_t count) {
  double sum = 0;
  for (int place = 0; place != kPlaces && begins[place] < count; ++place) {
    const double all = weighPlace(place);
    if (begins[place + 1] <= count) {
      sum += all;
      continue;
    }
    sort(place);
    for (std::size_t i = begins[place]; i != count; ++i)
      sum += weigh(order[i]);
  }
  return sum;
}

std::size_t Ranking::reach(double sum, bool isAbove, std::size_t most) {
  auto isThere = [&](double found) {
    return isAbove ? found > sum : found >= sum;
  };
  double together = 0;
  for (int place = 0; place != kPlaces && begins[place] < most; ++place) {
    const double all = weighPlace(place);
    if (!isThere(together + all)) {
      together += all;
      continue;
    }
    sort(place);
    const std::size_t end = std::min(begins[place + 1], most);
    for (std::size_t i = begins[place]; i != end; ++i) {
      together += weigh(order[i]);
      if (isThere(together))
        return i + 1;
    }
    // The sum of the place was rounded otherwise.
    return end;
  }
  return most;
}

std::size_t Ranking::countFrom(double weight) const {
  for (int place = 0; place != kPlaces; ++place) {
    const auto begin =
                   order.begin() + static_cast<std::ptrdiff_t>(begins[place]),
               end = order.begin() +
                     static_cast<std::ptrdiff_t>(begins[place + 1]);
    const auto there = std::count_if(
        begin, end, [&](int32_t token) { return weigh(token) >= weight; });
    if (there != end - begin)
      return begins[place] + static_cast<std::size_t>(there);
  }
  return size();
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
  // Almost always all are, and then vectors say so.
  bool areAll = true;
  for (float logit : logits)
    areAll &= logit < HUGE_VALF;
  if (areAll)
    return okStatus();
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

/// The number of one of these, which top-p and min-p leave, by their values
/// divided by the temperature, above 0.
static int32_t draw(std::span<const double> values, double highest,
                    const SamplingOptions &options, std::size_t place) {
  Ranking ranking(values, highest, options.temperature);
  std::size_t kept = ranking.size();
  if (options.topP < 1)
    kept = ranking.reach(options.topP * ranking.sumOf(kept), /*isAbove=*/false,
                         kept);
  if (options.minP > 0)
    kept = std::min(kept, ranking.countFrom(options.minP));
  const uint64_t bits = optimus_support::philoxBlock(
      options.seed, kSamplingStream, options.alternative, place)[0];
  const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  return ranking.at(
      ranking.reach(uniform * ranking.sumOf(kept), /*isAbove=*/true, kept) - 1);
}

/// One of the tokens that top-k has left. They weigh in the order of their
/// numbers, whoever found them.
static int32_t drawAmong(std::vector<Candidate> candidates,
                         const SamplingOptions &options, std::size_t place) {
  std::ranges::sort(candidates, {}, &Candidate::token);
  std::vector<double> values;
  for (const Candidate &each : candidates)
    values.push_back(each.value);
  return candidates[draw(values, std::ranges::max(values), options, place)]
      .token;
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
  if (isGreedy(options, candidates.front().value))
    return candidates.front().token;
  candidates.resize(
      std::min(candidates.size(), static_cast<std::size_t>(options.topK)));
  return drawAmong(std::move(candidates), options, numGenerated);
}

StatusOr<int32_t> optrt::sampleToken(std::span<const float> logits,
                                     std::span<const int32_t> prompt,
                                     std::span<const int32_t> generated,
                                     const SamplingOptions &options) {
  OPTRT_RETURN_IF_ERROR(checkLogits(logits));
  const std::vector<double> values =
      penalize(logits, prompt, generated, options);
  // The first of equal ones.
  const auto best = std::max_element(values.begin(), values.end());
  if (best == values.end() || *best == -HUGE_VAL)
    return noToken();
  if (isGreedy(options, *best))
    return static_cast<int32_t>(best - values.begin());
  if (options.topK == 0)
    return draw(values, *best, options, generated.size());
  Ranking ranking(values, *best, options.temperature);
  std::vector<Candidate> candidates(
      std::min(ranking.size(), static_cast<std::size_t>(options.topK)));
  for (std::size_t i = 0; i != candidates.size(); ++i) {
    const int32_t token = ranking.at(i);
    candidates[i] = {token, values[token]};
  }
  return drawAmong(std::move(candidates), options, generated.size());
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
