//===- Perturb.cpp - Parameters moved by one unit in the last place -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Perturb.h"

#include "optimus-support/Philox.h"

#include <cmath>

using namespace optimus_support;

bool optimus_support::perturbShard(uint64_t seed, uint32_t stream,
                                   const ShardLayout &layout, const Mesh &mesh,
                                   int64_t rank, float *local) {
  bool moved = false;
  layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
    // 128 elements share the bits of a block.
    uint64_t known = UINT64_MAX;
    std::array<uint64_t, 2> words = {};
    for (int64_t i = 0; i < run.count; ++i) {
      float &value = local[run.localOffset + i];
      if (value == 0 || !std::isfinite(value))
        continue;
      uint64_t index = uint64_t(run.globalOffset) + uint64_t(i);
      if (index / 128 != known) {
        known = index / 128;
        words = philoxBlock(seed, stream, /*step=*/0, known);
      }
      bool up = words[index / 64 % 2] >> (index % 64) & 1;
      value = std::nextafter(value, up ? INFINITY : -INFINITY);
      moved = true;
    }
  });
  return moved;
}
