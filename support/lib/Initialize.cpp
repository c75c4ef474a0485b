//===- Initialize.cpp - Initial values of parameters ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Initialize.h"

#include "optimus-support/Philox.h"

#include <algorithm>

using namespace optimus_support;

void optimus_support::initializeShard(const Initializer &init, uint64_t seed,
                                      const ShardLayout &layout,
                                      const Mesh &mesh, int64_t rank,
                                      float *local) {
  initializePiece(init, seed, layout, mesh, rank, 0,
                  {local, static_cast<size_t>(layout.numLocalElements())});
}

void optimus_support::initializePiece(const Initializer &init, uint64_t seed,
                                      const ShardLayout &layout,
                                      const Mesh &mesh, int64_t rank,
                                      int64_t begin, std::span<float> piece) {
  std::ranges::fill(piece, 0.0f);
  if (init.kind == InitKind::Zeros)
    return;
  const int64_t end = begin + static_cast<int64_t>(piece.size());
  for (ShardRuns runs(layout, mesh, rank, begin, end); !runs.done();
       runs.advance()) {
    const ShardRun &run = runs.next();
    float *out = piece.data() + (run.localOffset - begin);
    if (init.kind == InitKind::Normal)
      fillNormal(seed, init.stream, run.globalOffset, run.count, init.number,
                 out);
    else if (init.kind == InitKind::Uniform)
      fillUniform(seed, init.stream, run.globalOffset, run.count, init.number,
                  out);
    else
      std::fill_n(out, run.count,
                  init.kind == InitKind::Ones
                      ? 1.0f
                      : static_cast<float>(init.number));
  }
}
