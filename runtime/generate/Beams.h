//===- Beams.h - Several beginnings of one text -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A beam search goes on with the most probable beginnings of a text, and ends
// with the best of those that have ended; docs/inference.md has its rules. What
// it does follows from candidates alone: where all processes are told them, all
// have the same beams.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_BEAMS_H
#define OPTIMUS_RUNTIME_GENERATE_BEAMS_H

#include "optimus-runtime/Sampling.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace optrt {

/// A beginning of an answer.
struct Beam {
  std::vector<int32_t> tokens = {};
  double sum = 0; ///< of its tokens' scores
};

/// A beam with one more token.
struct BeamCandidate {
  int32_t beam = 0; ///< among those that go on
  int32_t token = 0;
  double sum = 0;
};

/// An answer that has ended.
struct EndedBeam {
  std::vector<int32_t> tokens; ///< without the stop
  bool isStopped = false;      ///< by a stop, not by its length
  double score = 0;
};

/// How a search chooses, besides by scores.
struct BeamOptions {
  int64_t beams = 1;        ///< that go on at most, and so many end
  double lengthPenalty = 1; ///< exponent of the length that divides a sum
  int64_t maxTokens = 1;
  /// A beam ends with each of these, which it then has not.
  std::vector<std::vector<int32_t>> stops = {};
};

class BeamSearch {
public:
  explicit BeamSearch(BeamOptions options) : options(std::move(options)) {}

  /// Those that go on, the best first; at first one without tokens.
  std::span<const Beam> beams() const { return live; }
  /// The best candidates, twice as many as beams, if there are: of equal ones
  /// those of the earlier beam, and of the lowest token. `logits` has a
  /// vocabulary behind each beam. InvalidArgument as sampleToken().
  StatusOr<std::vector<BeamCandidate>>
  findCandidates(std::span<const float> logits, std::span<const int32_t> prompt,
                 const SamplingOptions &sampling) const;
  /// Goes on with candidates, the best first. Returns for each new beam the
  /// number of its parent among those before.
  std::vector<int64_t> advance(std::span<const BeamCandidate> candidates);
  /// Whether no beam under way is better than the worst ended one.
  bool isDone() const;
  /// The best that has ended, once the search is done.
  const EndedBeam &best() const { return ended.front(); }

private:
  double scoreOf(double sum, std::size_t length) const;
  void end(std::vector<int32_t> tokens, bool isStopped, double sum,
           std::size_t length);

  BeamOptions options;
  std::vector<Beam> live = {Beam()};
  std::vector<EndedBeam> ended; ///< the best, the best first
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_BEAMS_H
