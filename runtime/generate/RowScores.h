//===- RowScores.h - The most probable tokens of rows -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_ROWSCORES_H
#define OPTIMUS_RUNTIME_GENERATE_ROWSCORES_H

#include "optimus-runtime/Sampling.h"
#include "optimus-runtime/Session.h"

namespace optrt {

/// What a row of logits says of a token in its place.
struct RowScore {
  double logProbability = 0;
  std::vector<ScoredToken> best = {}; ///< as mostProbable()
};

/// The scores of targets in rows `first`, `first` + 1, … of logits that a
/// function has left, with so many of the most probable tokens: in the root
/// process, elsewhere none. Each rank reads its part where it lies, and says
/// the best of it: no row leaves it. InvalidArgument as sampleToken().
/// Collective.
StatusOr<std::vector<RowScore>>
scoreRows(Session &session, ControlPlane &control, const std::string &logits,
          int64_t first, std::span<const int32_t> targets, int64_t numBest);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_ROWSCORES_H
