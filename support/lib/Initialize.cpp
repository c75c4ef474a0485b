//===- Initialize.cpp - Initial values of parameters ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Initialize.h"

#include "optimus-support/Philox.h"

using namespace optimus_support;

void optimus_support::initializeShard(const Initializer &init, uint64_t seed,
                                      const ShardLayout &layout,
                                      const Mesh &mesh, int64_t rank,
                                      float *local) {
  std::fill_n(local, layout.numLocalElements(), 0.0f);
  if (init.kind == InitKind::Zeros)
    return;
  layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
    float *out = local + run.localOffset;
    if (init.kind == InitKind::Normal)
      fillNormal(seed, init.stream, run.globalOffset, run.count, init.number,
                 out);
    else
      std::fill_n(out, run.count,
                  init.kind == InitKind::Ones
                      ? 1.0f
                      : static_cast<float>(init.number));
  });
}
