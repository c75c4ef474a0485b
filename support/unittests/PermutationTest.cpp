//===- PermutationTest.cpp - The order of a data set's windows ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Permutation.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

using namespace optimus_support;

using Order = std::vector<uint64_t>;

// From a separate implementation of the definition in Permutation.h and
// Philox.h, with Python's integers.
TEST(Permutation, IsTheDocumentedOne) {
  EXPECT_EQ(permutation(10, 42, 0), (Order{0, 3, 2, 4, 9, 7, 5, 6, 1, 8}));
  EXPECT_EQ(permutation(10, 42, 3), (Order{0, 5, 4, 1, 8, 6, 2, 9, 7, 3}));
  EXPECT_EQ(permutation(10, (uint64_t(1) << 63) + 5, 0),
            (Order{6, 7, 3, 9, 8, 2, 4, 0, 1, 5}));
}

TEST(Permutation, HoldsEveryElementOnce) {
  for (uint64_t n : {0, 1, 2, 3, 17, 1000}) {
    Order order = permutation(n, 7, 1);
    ASSERT_EQ(order.size(), n);
    EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), n);
    for (uint64_t element : order)
      EXPECT_LT(element, n);
  }
}

TEST(Permutation, ChangesWithSeedAndEpoch) {
  EXPECT_EQ(permutation(100, 1, 0), permutation(100, 1, 0));
  EXPECT_NE(permutation(100, 1, 0), permutation(100, 2, 0));
  EXPECT_NE(permutation(100, 1, 0), permutation(100, 1, 1));
}

TEST(Permutation, IsUniform) {
  // 24 equally likely orders: chi-squared with 23 degrees of freedom exceeds
  // 49.7 once in 1000 seeds, and this seed is fixed.
  constexpr int draws = 24000;
  std::map<Order, int> counts;
  for (int epoch = 0; epoch < draws; ++epoch)
    ++counts[permutation(4, 5, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  double chiSquared = 0, expected = draws / 24.0;
  for (auto [order, count] : counts)
    chiSquared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chiSquared, 49.7);
}
