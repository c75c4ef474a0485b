//===- Permutation.cpp - The order of a data set's windows ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Permutation.h"

#include "optimus-support/Philox.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

std::vector<uint64_t> optimus_support::permutation(uint64_t n, uint64_t seed,
                                                   uint64_t epoch) {
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), uint64_t(0));
  PhiloxSequence draws(seed, kShuffleStream, epoch);
  for (uint64_t i = n; i > 1; --i)
    std::swap(order[i - 1], order[draws.below(i)]);
  return order;
}

uint64_t optimus_support::permuted(uint64_t index, uint64_t n, uint64_t seed,
                                   uint64_t epoch) {
  assert(index < n);
  // At most twice n: two walks of the network on average at worst.
  const int bits = std::max(2, int(std::bit_width(n - 1)));
  const int lowBits = bits / 2;
  const uint64_t lowMask = (uint64_t(1) << lowBits) - 1;
  const uint64_t highMask = (uint64_t(1) << (bits - lowBits)) - 1;
  auto draw = [&](uint64_t round, uint64_t half) {
    return philoxBlock(seed, kShuffleStream, epoch, round << 40 | half)[0];
  };
  do {
    uint64_t low = index & lowMask, high = index >> lowBits;
    for (uint64_t round = 0; round != 8; ++round)
      if (round % 2 == 0)
        high ^= draw(round, low) & highMask;
      else
        low ^= draw(round, high) & lowMask;
    index = high << lowBits | low;
  } while (index >= n);
  return index;
}
