//===- SeenKeysTest.cpp - Which keys a query of attention sees ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/SeenKeys.h"

#include <gtest/gtest.h>
#include <utility>
#include <vector>

using namespace optimus_support;

namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

/// Of each token of a sequence.
Ranges seenBy(const std::vector<int64_t> &positions, int64_t length,
              bool causal, int64_t window = 0) {
  Ranges ranges;
  for (size_t i = 0; i != positions.size(); ++i) {
    const KeyRange range =
        seenKeys(static_cast<int64_t>(i), positions[i], length, causal, window);
    ranges.emplace_back(range.first, range.end);
  }
  return ranges;
}

TEST(SeenKeys, AreThoseOfTheDocumentUpToTheToken) {
  EXPECT_EQ(seenBy({0, 1, 2, 0, 1, 0}, 6, true),
            (Ranges{{0, 1}, {0, 2}, {0, 3}, {3, 4}, {3, 5}, {5, 6}}));
}

TEST(SeenKeys, AreAllWithoutTheCausalMask) {
  EXPECT_EQ(seenBy({0, 1, 2}, 3, false), (Ranges{{0, 3}, {0, 3}, {0, 3}}));
}

TEST(SeenKeys, EndWithTheLength) {
  EXPECT_EQ(seenBy({0, 1, 2}, 2, true), (Ranges{{0, 1}, {0, 2}, {0, 2}}));
  EXPECT_EQ(seenKeys(2, 0, 2, true).size(), 0);
  EXPECT_EQ(seenKeys(2, 1, 2, true).size(), 1);
}

TEST(SeenKeys, ReachNoFurtherThanTheSequence) {
  EXPECT_EQ(seenBy({-3, 9, 3}, 3, true), (Ranges{{0, 1}, {0, 2}, {0, 3}}));
}

TEST(SeenKeys, AreTheLastOnesOfAWindow) {
  EXPECT_EQ(seenBy({0, 1, 2, 3}, 4, true, 1),
            (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(seenBy({0, 1, 2, 0, 1, 2}, 6, true, 2),
            (Ranges{{0, 1}, {0, 2}, {1, 3}, {3, 4}, {3, 5}, {4, 6}}));
  EXPECT_EQ(seenBy({0, 1, 2, 3}, 2, true, 2),
            (Ranges{{0, 1}, {0, 2}, {1, 2}, {2, 2}}));
}

TEST(SeenKeys, AreTheSameInAWindowOfAllTokens) {
  const std::vector<int64_t> positions = {0, 1, 2, 0, 1};
  for (int64_t window : {5, 6, 1000})
    EXPECT_EQ(seenBy(positions, 5, true, window), seenBy(positions, 5, true));
}

TEST(SeenKeys, OfACacheAreThoseUpToAPosition) {
  auto seen = [](int64_t position, int64_t length, int64_t window) {
    const KeyRange range = seenCachedKeys(position, length, window);
    return std::pair(range.first, range.end);
  };
  EXPECT_EQ(seen(0, 9, 0), Ranges::value_type(0, 1));
  EXPECT_EQ(seen(5, 9, 0), Ranges::value_type(0, 6));
  EXPECT_EQ(seen(5, 4, 0), Ranges::value_type(0, 4));
  EXPECT_EQ(seen(5, 9, 2), Ranges::value_type(4, 6));
  EXPECT_EQ(seenCachedKeys(5, 0).size(), 0);
  EXPECT_EQ(seenCachedKeys(-1, 9).size(), 0);
}

TEST(SeenKeys, OfAWindowAreCounted) {
  for (int64_t seq : {1, 2, 7})
    for (int64_t window = 0; window != 10; ++window) {
      double all = 0, seen = 0;
      for (int64_t i = 0; i != seq; ++i) {
        all += static_cast<double>(seenKeys(i, i, seq, true).size());
        seen += static_cast<double>(seenKeys(i, i, seq, true, window).size());
      }
      EXPECT_DOUBLE_EQ(windowShare(seq, window), seen / all)
          << seq << " " << window;
    }
}

} // namespace
