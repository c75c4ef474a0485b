//===- Sampling.h - Choosing a token by its logits --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is chosen depends on the logits, the options, the tokens so far and the
// index of the token in its text: neither on the slot nor on other texts.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SAMPLING_H
#define OPTIMUS_RUNTIME_SAMPLING_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace optrt {

/// How tokens are chosen, in the order of docs/inference.md.
struct SamplingOptions {
  /// Added to the logits of these tokens.
  std::map<int32_t, double> logitBias = {};
  /// Logits of tokens of the text so far, prompt included, are divided by it
  /// where they are positive and multiplied by it elsewhere.
  double repetitionPenalty = 1;
  /// Subtracted from the logit of each token that was generated, once, and as
  /// often as it was.
  double presencePenalty = 0, frequencyPenalty = 0;
  /// If there is one, its logarithm is added to the logits of copyable tokens,
  /// each once however often the source has it: below 1 a text copies less.
  std::optional<double> copyingPenalty = {};
  /// What a text is said to copy: by default its prompt, whole.
  std::optional<std::vector<int32_t>> copyingSource = {};
  /// Of them, those that are no copies wherever they are: punctuation, tokens
  /// that end a text, and the like.
  std::set<int32_t> copyingExceptions = {};
  /// Logits are divided by it; 0: the token of the highest logit, of several
  /// the one with the lowest number.
  double temperature = 0;
  int64_t topK = 0; ///< so many tokens of the highest logits; 0: all
  /// The fewest most probable tokens of at least this probability together.
  double topP = 1;
  /// Tokens at least this times as probable as the most probable one.
  double minP = 0;
  uint64_t seed = 0;
  uint64_t alternative = 0; ///< of several texts of one prompt and seed

  /// InvalidArgument with the option that is out of range; tokens are below
  /// `vocabulary`.
  Status check(int64_t vocabulary) const;

  /// Whether so many of the highest logits are enough to choose by: they count
  /// as they are, and no other token can be chosen.
  bool choosesAmong(int64_t best) const;

  /// The tokens that are copies in the answer to a prompt.
  std::set<int32_t> copyable(std::span<const int32_t> prompt) const;
  /// Of so many generated tokens that are no exceptions, the share of copies; 0
  /// where there is none.
  double copiedShare(std::span<const int32_t> prompt,
                     std::span<const int32_t> generated) const;
};

/// The token that follows a text of `prompt` and `generated`. InvalidArgument
/// where a logit is no number, or all are minus infinity.
StatusOr<int32_t> sampleToken(std::span<const float> logits,
                              std::span<const int32_t> prompt,
                              std::span<const int32_t> generated,
                              const SamplingOptions &options);

/// The same by the highest logits alone, where choosesAmong() them: `best` are
/// so many logits, the highest first, and then their tokens as numbers, as the
/// functions of a library have them. InvalidArgument where the first logit is
/// infinite, or these are no tokens below `vocabulary`.
StatusOr<int32_t> sampleBest(std::span<const float> best, int64_t vocabulary,
                             std::size_t numGenerated,
                             const SamplingOptions &options);

/// What beams add up: of each token the logarithm of its probability, by the
/// logits as they are, and what biases and penalties add to its logit. Errors
/// as above, but for tokens that are all minus infinity.
StatusOr<std::vector<double>> scoreTokens(std::span<const float> logits,
                                          std::span<const int32_t> prompt,
                                          std::span<const int32_t> generated,
                                          const SamplingOptions &options);

/// InvalidArgument where a token's logit is no number, or infinite.
Status checkLogit(int64_t token, float logit);

/// The logarithm of a token's probability, by the logits as they are.
double logProbability(std::span<const float> logits, int32_t token);

/// A token with the logarithm of its probability.
struct ScoredToken {
  int32_t token = 0;
  double logProbability = 0;
};
/// The most probable tokens, at most so many and the most probable one first,
/// equal ones by number; by the logits as they are.
std::vector<ScoredToken> mostProbable(std::span<const float> logits,
                                      int64_t count);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SAMPLING_H
