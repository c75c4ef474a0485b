//===- Permutation.cpp - The order of a data set's windows ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Permutation.h"

#include "optimus-support/Philox.h"

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
