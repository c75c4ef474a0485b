//===- PermutationTest.cpp - The order of a data set's windows ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
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

static Order permutedOrder(uint64_t n, uint64_t seed, uint64_t epoch) {
  Order order(n);
  for (uint64_t i = 0; i != n; ++i)
    order[i] = permuted(i, n, seed, epoch);
  return order;
}

// From a separate implementation of the definition, with Python's integers.
TEST(Permuted, IsTheDocumentedOne) {
  EXPECT_EQ(permutedOrder(10, 42, 0), (Order{7, 2, 0, 5, 6, 1, 3, 8, 4, 9}));
  EXPECT_EQ(permutedOrder(10, 42, 3), (Order{2, 1, 6, 7, 4, 8, 0, 9, 5, 3}));
  const uint64_t n = 33'000'001, seed = (uint64_t(1) << 63) + 5;
  for (auto [index, element] : std::map<uint64_t, uint64_t>{{0, 1309317},
                                                            {1, 28423774},
                                                            {2, 10404600},
                                                            {1 << 24, 11364741},
                                                            {n - 1, 25048019}})
    EXPECT_EQ(permuted(index, n, seed, 7), element);
  EXPECT_EQ(permuted((uint64_t(1) << 44) - 1, uint64_t(1) << 44, 5, 0),
            13459382930258u);
}

TEST(Permuted, HoldsEveryElementOnce) {
  for (uint64_t n : {1, 2, 3, 4, 5, 17, 1000, 1 << 17, (1 << 17) + 1}) {
    Order order = permutedOrder(n, 7, 1);
    std::sort(order.begin(), order.end());
    Order identity(n);
    std::iota(identity.begin(), identity.end(), uint64_t(0));
    EXPECT_EQ(order, identity) << n;
  }
}

TEST(Permuted, LooksRandom) {
  // Where an element goes says nothing of where its neighbours go, or itself in
  // another epoch: of pairs of places in 16 parts each, chi-squared with 255
  // degrees of freedom exceeds 330 once in 1000 seeds, and this seed is fixed.
  constexpr uint64_t n = 100'000;
  const Order order = permutedOrder(n, 3, 0), next = permutedOrder(n, 3, 1);
  auto chiSquared = [&](auto pairOf) {
    std::vector<double> counts(256);
    for (uint64_t i = 0; i + 1 != n; ++i) {
      auto [one, other] = pairOf(i);
      ++counts[one * 16 / n * 16 + other * 16 / n];
    }
    double sum = 0, expected = (n - 1) / 256.0;
    for (double count : counts)
      sum += (count - expected) * (count - expected) / expected;
    return sum;
  };
  EXPECT_LT(
      chiSquared([&](uint64_t i) { return std::pair(order[i], order[i + 1]); }),
      330);
  EXPECT_LT(chiSquared([&](uint64_t i) { return std::pair(i, order[i]); }),
            330);
  EXPECT_LT(
      chiSquared([&](uint64_t i) { return std::pair(order[i], next[i]); }),
      330);
}
