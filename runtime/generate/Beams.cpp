//===- Beams.cpp - Several beginnings of one text -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Beams.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace optrt;

StatusOr<std::vector<BeamCandidate>>
BeamSearch::findCandidates(std::span<const float> logits,
                           std::span<const int32_t> prompt,
                           const SamplingOptions &sampling) const {
  const std::size_t vocabulary = logits.size() / live.size();
  const auto most = static_cast<std::size_t>(2 * options.beams);
  std::vector<BeamCandidate> best;
  for (std::size_t beam = 0; beam != live.size(); ++beam) {
    OPTRT_ASSIGN_OR_RETURN(
        std::vector<double> scores,
        scoreTokens(logits.subspan(beam * vocabulary, vocabulary), prompt,
                    live[beam].tokens, sampling));
    for (double &score : scores)
      score += live[beam].sum;
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + std::min(most, order.size());
    std::partial_sort(order.begin(), end, order.end(),
                      [&](int32_t a, int32_t b) {
                        return scores[a] != scores[b] ? scores[a] > scores[b]
                                                      : a < b;
                      });
    for (auto token = order.begin(); token != end; ++token)
      if (std::isfinite(scores[*token]))
        best.push_back(
            {static_cast<int32_t>(beam), *token, scores[*token]});
  }
  if (best.empty())
    return invalidArgument("no token has a logit above minus infinity");
  // Equal ones stay in the order of beams and tokens.
  std::ranges::stable_sort(best, std::greater(), &BeamCandidate::sum);
  best.resize(std::min(most, best.size()));
  return best;
}

double BeamSearch::scoreOf(double sum, std::size_t length) const {
  return sum / std::pow(static_cast<double>(length), options.lengthPenalty);
}

void BeamSearch::end(std::vector<int32_t> tokens, bool isStopped, double sum,
                     std::size_t length) {
  const EndedBeam found{std::move(tokens), isStopped, scoreOf(sum, length)};
  // Behind equal ones.
  ended.insert(std::ranges::upper_bound(ended, found.score, std::greater(),
                                        &EndedBeam::score),
               found);
  if (std::ssize(ended) > options.beams)
    ended.pop_back();
}

std::vector<int64_t>
BeamSearch::advance(std::span<const BeamCandidate> candidates) {
  std::vector<Beam> next;
  std::vector<int64_t> parents;
  for (std::size_t rank = 0; rank != candidates.size(); ++rank) {
    const BeamCandidate &candidate = candidates[rank];
    std::vector<int32_t> tokens = live[candidate.beam].tokens;
    tokens.push_back(candidate.token);
    const std::size_t length = tokens.size();
    // Of several stops the longest.
    std::size_t stop = 0;
    for (const std::vector<int32_t> &each : options.stops)
      if (each.size() <= length &&
          std::equal(each.begin(), each.end(), tokens.end() - each.size()))
        stop = std::max(stop, each.size());
    if (stop != 0 || static_cast<int64_t>(length) == options.maxTokens) {
      // What is not among so many would not have gone on either.
      if (static_cast<int64_t>(rank) < options.beams) {
        tokens.resize(length - stop);
        end(std::move(tokens), stop != 0, candidate.sum, length);
      }
      continue;
    }
    if (std::ssize(next) == options.beams)
      continue;
    next.push_back({std::move(tokens), candidate.sum});
    parents.push_back(candidate.beam);
  }
  live = std::move(next);
  return parents;
}

bool BeamSearch::isDone() const {
  if (live.empty())
    return true;
  return std::ssize(ended) == options.beams &&
         ended.back().score >=
             scoreOf(live.front().sum, live.front().tokens.size());
}
