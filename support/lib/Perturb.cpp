//===- Perturb.cpp - Parameters moved by one unit in the last place -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Perturb.h"

#include "optimus-support/Philox.h"

#include <bit>
#include <cmath>

using namespace optimus_support;

/// `value` with its magnitude, as an integer, larger or smaller by `step`, or
/// as it is where that would be another sign or infinite.
static float moveBy(float value, uint32_t step, bool larger) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & ~kSign;
  if (larger ? magnitude + step >= kInfinity : magnitude < step)
    return value;
  return std::bit_cast<float>(
      (bits & kSign) | (larger ? magnitude + step : magnitude - step));
}

bool optimus_support::perturbShard(uint64_t seed, uint32_t stream,
                                   const ShardLayout &layout, const Mesh &mesh,
                                   int64_t rank, int precision, float *local) {
  const uint32_t step = uint32_t(1) << (24 - precision);
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
      float next = moveBy(value, step, /*larger=*/up == (value > 0));
      moved |= next != value;
      value = next;
    }
  });
  return moved;
}
