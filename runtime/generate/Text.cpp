//===- Text.cpp - A text under way ----------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"

#include <algorithm>

using namespace optrt;

/// How many of the last tokens a stop begins with: they may become one.
static int64_t countHeldBack(std::span<const int32_t> tokens,
                             std::span<const std::vector<int32_t>> stops) {
  std::size_t held = 0;
  for (const std::vector<int32_t> &stop : stops)
    for (std::size_t length = std::min(stop.size() - 1, tokens.size());
         length > held; --length)
      if (std::equal(stop.begin(), stop.begin() + length,
                     tokens.end() - length))
        held = length;
  return static_cast<int64_t>(held);
}

GeneratedPart Text::extend(Choice &choice) {
  generated.push_back(choice.token);
  GeneratedPart part;
  part.text = number;
  if (request.wantsLogits)
    part.logits = std::move(choice.kept);
  part.score = choice.score;
  part.best = std::move(choice.best);
  int64_t end = std::ssize(generated);
  for (const std::vector<int32_t> &stop : request.stops)
    if (stop.size() <= generated.size() &&
        std::equal(stop.begin(), stop.end(), generated.end() - stop.size())) {
      part.finish = FinishReason::Stop;
      end = std::min(end, std::ssize(generated) - std::ssize(stop));
    }
  if (!part.finish && std::ssize(generated) == request.maxTokens)
    part.finish = FinishReason::Length;
  if (!part.finish)
    end -= countHeldBack(generated, request.stops);
  if (end > released) {
    part.tokens.assign(generated.begin() + released, generated.begin() + end);
    released = end;
  }
  return part;
}

bool GenerationRequest::choosesAmong(int64_t best) const {
  return beams == 1 && continuation.empty() && !wantsLogits && !wantsScores &&
         numBest == 0 && sampling.choosesAmong(best);
}

Status optrt::chooseNext(const Text &text, Choice &choice, int64_t vocabulary) {
  const GenerationRequest &request = text.request;
  if (text.beams) {
    OPTRT_ASSIGN_OR_RETURN(choice.candidates, text.beams->search.findCandidates(
                                                  choice.logits, request.prompt,
                                                  request.sampling));
    return okStatus();
  }
  if (choice.hasBestAlone) {
    OPTRT_ASSIGN_OR_RETURN(choice.token,
                           sampleBest(choice.logits, vocabulary,
                                      text.generated.size(), request.sampling));
  } else if (choice.given) {
    choice.token = *choice.given;
    // Otherwise it has its scores.
    if (!request.wantsLogits)
      return okStatus();
  } else {
    OPTRT_ASSIGN_OR_RETURN(choice.token,
                           sampleToken(choice.logits, request.prompt,
                                       text.generated, request.sampling));
  }
  if (request.wantsScores)
    choice.score = logProbability(choice.logits, choice.token);
  if (request.numBest > 0)
    choice.best = mostProbable(choice.logits, request.numBest);
  if (request.wantsLogits && choice.kept.empty())
    choice.keep(choice.logits);
  return okStatus();
}

TextBeams::Moves TextBeams::place(std::span<const int64_t> parents) const {
  const std::vector<int64_t> &before = slots.empty() ? kept : slots;
  Moves moves;
  moves.into.resize(parents.size(), -1);
  std::vector<int64_t> free = kept;
  for (std::size_t i = 0; i != parents.size(); ++i) {
    moves.from.push_back(before[parents[i]]);
    if (std::erase(free, moves.from[i]) != 0)
      moves.into[i] = moves.from[i];
  }
  for (int64_t &slot : moves.into)
    if (slot < 0) {
      slot = free.front();
      free.erase(free.begin());
    }
  return moves;
}
