//===- Generator.h - Texts, token by token ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A generator runs a library's prefill and decode for several texts at a time,
// each in a slot of the cache. Prompts are taken in by chunks, beside the texts
// that are generated. Rank 0 chooses the tokens, and tells the other processes
// once a step. A scorer runs the library's score for one text after the other.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATOR_H
#define OPTIMUS_RUNTIME_GENERATOR_H

#include "optimus-runtime/Sampling.h"
#include "optimus-runtime/Session.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace optrt {

struct GenerationRequest;

/// A library's functions for generation.
struct GenerationEntries {
  const Function *prefill = nullptr, *decode = nullptr;
  const Function *score = nullptr; ///< null where a library has none
  /// The functions that prepare weights for these.
  std::vector<const Function *> preparers;
  CacheExtents cache;
  int64_t chunk = 0;      ///< tokens of a prompt that a call takes in
  int64_t vocabulary = 0; ///< logits of a token
  /// The most probable tokens that prefill and decode say, beside the logits;
  /// 0: they do not. Texts that are chosen among these need no more.
  int64_t best = 0;

  /// InvalidArgument where a library has none, with what would make them, or
  /// where theirs do not fit together; `library` is for messages.
  static StatusOr<GenerationEntries> find(const std::string &library,
                                          const Manifest &manifest);
  /// What a session must choose to generate.
  std::vector<std::string> functions() const;
  /// What it must choose for a scorer. A generator whose session has chosen
  /// these, too, takes continuations. InvalidArgument where a library has no
  /// score.
  StatusOr<std::vector<std::string>>
  scoringFunctions(const std::string &library) const;
  /// New tokens that there is place for behind a request's prompt.
  int64_t placeBehind(const GenerationRequest &request) const;
  /// Tokens of a call at most that takes a request's tokens in.
  int64_t tokensOfCall(const GenerationRequest &request) const;
  /// Whether a text with so many new tokens gives back pages behind its window
  /// before it ends, since it has more than it needs at a time.
  bool slides(const GenerationRequest &request, int64_t newTokens) const;
  /// Pages that a request with so many new tokens needs at most at a time; 0
  /// without pages.
  int64_t countPages(const GenerationRequest &request, int64_t newTokens) const;
  /// InvalidArgument where a rank has not as many, with how many would do.
  Status checkPages(const GenerationRequest &request, int64_t newTokens) const;
  /// InvalidArgument for host memory of a cache that has no pages, or of fewer
  /// than a page for each rank's slots.
  Status checkHostPages(int64_t hostPages) const;
  /// InvalidArgument for a prompt without tokens or beyond the context, the
  /// vocabulary or the pages of a rank, and for options out of range.
  Status check(const GenerationRequest &request) const;
  /// InvalidArgument unless a scorer can score tokens[first] and those behind
  /// it: `first` is from 1 on and one of them, there are at most as many as the
  /// context and one, and all are of the vocabulary.
  Status checkScored(std::span<const int32_t> tokens, int64_t first) const;
  /// Prepares the weights of a session, which has chosen one of these, once its
  /// parameters are there. Those without other readers were prepared when they
  /// were set. Collective.
  Status prepare(Session &session) const;
};

struct GenerationRequest {
  std::vector<int32_t> prompt = {};
  /// Tokens that are generated at most; 0: as many as the cache has place for.
  int64_t maxTokens = 0;
  /// A text ends before each of these, of which it has none.
  std::vector<std::vector<int32_t>> stops = {};
  /// If there are any, these follow the prompt, and nothing is chosen: the
  /// library's score takes them in, a chunk a step. A step then has a part for
  /// each of them.
  std::vector<int32_t> continuation = {};
  bool wantsLogits = false; ///< see GeneratedPart::logits
  bool wantsScores = false; ///< see GeneratedPart::score
  int64_t numBest = 0;      ///< see GeneratedPart::best
  /// Beginnings of the text that go on side by side, each in a slot; beyond one
  /// their scores choose, at temperature 0, and the best text has one part, its
  /// last. Then no logits and scores of steps are wanted.
  int64_t beams = 1;
  double lengthPenalty = 1; ///< see BeamOptions
  SamplingOptions sampling = {};

  /// Whether tokens are chosen by so many of the most probable ones, and
  /// nothing else is asked for.
  bool choosesAmong(int64_t best) const;
};

enum class FinishReason {
  Stop,      ///< one of the stops came
  Length,    ///< as many tokens as were asked for
  Cancelled, ///< by cancel()
};
std::string_view toString(FinishReason reason);

/// What a step adds to a text.
struct GeneratedPart {
  int64_t text = 0; ///< as add() counts
  std::vector<int32_t> tokens = {};
  std::optional<FinishReason> finish = {}; ///< with the last part
  /// Those by which a token was chosen in this step, if the request wants them:
  /// in the root process, elsewhere none.
  std::vector<float> logits = {};
  /// The logarithm of the probability of this step's token, by the logits as
  /// they are, if the request wants it: in the root process. Of a text of beams
  /// its score, in every process.
  double score = 0;
  /// So many of the most probable tokens as the request wants, in this step's
  /// place: in the root process.
  std::vector<ScoredToken> best = {};
};

/// What has been done so far.
struct GenerationCounters {
  int64_t promptTokens = 0;    ///< put into the cache by chunks
  int64_t generatedTokens = 0; ///< chosen
  int64_t prefills = 0;        ///< chunks, those of given texts too
  int64_t decodes = 0;
  int64_t decodedTokens = 0; ///< put into the cache by decodes, of beams too
  int64_t sharedTokens = 0;  ///< of prompts, in pages of other texts
  int64_t movedPages = 0;    ///< to the host, each time
};

/// The pages of a cache that has them.
struct PageCounts {
  int64_t held = 0, free = 0;
  int64_t shared = 0; ///< of those that are held, by several texts or beams
  int64_t onHost = 0; ///< besides
  /// Memory that those on the host take at most, of all ranks together.
  int64_t hostBytes = 0;
};

/// Texts that a session generates. Its functions are called by every process of
/// the job with the same arguments in the same order, and have the same
/// results; what random numbers and penalties there are (SamplingOptions)
/// counts in the root process alone.
///
/// Where the cache has pages, a text is let in once there are as many as it can
/// need, those on the host included. Where a text comes to a page and none is
/// free, the youngest ones are parked: they wait, and their last pages move to
/// the host, as many as are needed. A parked text goes on once there is a page
/// for each of its own again, the oldest first; nothing is computed anew. Texts
/// of beams, and those that give back pages behind a window, are never parked.
/// Texts with equal beginnings of prompts share their pages: whole pages
/// of whole chunks, once a prefill of a text that has not ended has written
/// them. A text that gives back pages behind its window shares none.
class Generator {
public:
  /// `session` has chosen the entries and prepared its parameters for them, and
  /// outlives the generator. While texts have slots, the parameters stay, and
  /// nothing else writes the cache. Besides its pages `hostPages` may be in
  /// host memory, shared out as they are; see checkHostPages().
  Generator(Session &session, ControlPlane &control, GenerationEntries entries,
            int64_t hostPages = 0);
  Generator(Generator &&other) noexcept;
  ~Generator();

  /// Queues a text, and returns its number, from 0 on. Errors as
  /// GenerationEntries::check(), and for a continuation where the session has
  /// not chosen the library's score; then nothing was added.
  StatusOr<int64_t> add(GenerationRequest request);
  /// Ends a text, wherever it is, before the next step. Nothing where it has
  /// ended.
  void cancel(int64_t text);
  /// Whether a text has not ended.
  bool hasWork() const;
  /// Lets waiting texts into free slots, puts a chunk of an incomplete prompt
  /// into the cache, of the oldest and of the shortest in turn, and generates a
  /// token of each text with a complete one. Returns what texts have got, in
  /// the order of slots. A failure is that of every process. InvalidArgument,
  /// with the rank, where a process was asked for other texts since the last
  /// step.
  StatusOr<std::vector<GeneratedPart>> step();

  const GenerationEntries &functions() const;
  const GenerationCounters &counters() const;
  /// Nothing where the cache has no pages.
  std::optional<PageCounts> pages() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

/// The probabilities of given texts. Its functions are collective, as those of
/// a generator.
class Scorer {
public:
  /// `session` has chosen what scores and prepared its parameters, and outlives
  /// the scorer.
  Scorer(Session &session, ControlPlane &control, GenerationEntries entries)
      : session(session), control(control), entries(entries) {}

  /// The logarithms of the probabilities of tokens[first], tokens[first + 1],
  /// …, each behind all those before it: in the root process, elsewhere none.
  /// Errors as GenerationEntries::checkScored().
  StatusOr<std::vector<double>> score(std::span<const int32_t> tokens,
                                      int64_t first);

private:
  Session &session;
  ControlPlane &control;
  const GenerationEntries entries;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATOR_H
