//===- Text.h - A text under way --------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_TEXT_H
#define OPTIMUS_RUNTIME_GENERATE_TEXT_H

#include "Beams.h"
#include "optimus-runtime/Generator.h"

namespace optrt {

/// The logits of decode, a row a slot, and those of prefill; the best of either
/// where the library has them: the highest, and then their tokens.
inline constexpr const char *kNextLogits = "next_logits",
                            *kNextBest = "next_best",
                            *kPromptLogits = "prompt_logits",
                            *kPromptBest = "prompt_best";

/// A token that follows a text, and its logits where they are wanted; or what
/// follows its beams.
struct Choice {
  int64_t slot = 0;
  std::vector<int64_t> rows = {0}; ///< of the logits, one a beam
  std::optional<int32_t> given = {};
  int32_t token = 0;
  std::vector<BeamCandidate> candidates = {};
  /// Of these rows: kept here, or where a session has them until it runs again.
  std::span<const float> logits = {};
  std::vector<float> kept = {};
  bool hasBestAlone = false; ///< in place of all logits
  double score = 0;
  std::vector<ScoredToken> best = {};

  void keep(std::span<const float> rows) {
    kept.assign(rows.begin(), rows.end());
    logits = kept;
  }
};

/// A search, and the slots of its beams.
struct TextBeams {
  BeamSearch search;
  std::vector<int64_t> kept = {}; ///< all slots, the text's own first
  /// In use, one a beam that goes on; none before the first token.
  std::vector<int64_t> slots = {};

  /// The slots that new beams go on from, and into: the first one of a parent
  /// stays in its slot, others get copies.
  struct Moves {
    std::vector<int64_t> from, into;
  };
  Moves place(std::span<const int64_t> parents) const;
};

struct Text {
  int64_t number = 0;
  GenerationRequest request;
  std::vector<int32_t> generated;
  int64_t cached = 0;   ///< tokens in the cache: the first
  int64_t released = 0; ///< generated tokens that parts have had
  bool isCancelled = false;
  std::optional<TextBeams> beams = {}; ///< where there are several
  int64_t promised = 0;                ///< pages that it may take
  bool slides = false;                 ///< see GenerationEntries::slides()
  bool isParked = false; ///< waits for pages, of which some are on the host
  /// Whether others with the same prompt can go on from its first choice, and
  /// the logits of that, in the root.
  bool isForkable = false;
  std::vector<float> firstLogits = {};

  int64_t promptSize() const { return std::ssize(request.prompt); }
  int64_t size() const { return promptSize() + std::ssize(generated); }
  /// Tokens that a text has and its slot has not.
  int64_t numMissing() const { return size() - cached; }
  bool isGiven() const { return !request.continuation.empty(); }
  bool canPark() const { return !beams && !slides; }
  bool hasWholePrompt() const { return cached >= promptSize(); }
  /// Whether its beams have tokens of their own.
  bool isInBeams() const { return beams && !beams->slots.empty(); }
  /// Tokens for chunks. A last token alone is one for decode, as any that
  /// follows; the last that is given is put nowhere.
  int64_t numOfChunks() const {
    if (isGiven())
      return promptSize() + std::ssize(request.continuation) - 1 - cached;
    return numMissing() > 1 ? numMissing() : 0;
  }
  int32_t last() const {
    return generated.empty() ? request.prompt.back() : generated.back();
  }

  /// Adds a chosen token, and returns what the text has got by it: tokens that
  /// may become a stop are held back.
  GeneratedPart extend(Choice &choice);
};

/// In the root: chooses by the choice's logits.
Status chooseNext(const Text &text, Choice &choice, int64_t vocabulary);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_TEXT_H
