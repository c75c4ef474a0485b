//===- DropoutTest.cpp - Which elements a dropout keeps -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace optimus_support;

TEST(Dropout, ElementsDrawTheWordsOfSixteenBlocks) {
  uint64_t seed = 0x1122334455667788, step = 0xABCD99AABBCC;
  for (uint64_t index : {0, 15, 16, 33, 63, 64, 100, 127, 6400}) {
    uint64_t group = index / 64, lane = index % 16, word = index % 64 / 16;
    auto block = philoxBlock(seed, 9, step, 16 * group + lane);
    EXPECT_EQ(dropoutDraw(seed, 9, step, index),
              uint32_t(block[word / 2] >> (word % 2 ? 32 : 0)))
        << index;
  }
}

TEST(Dropout, NoTwoElementsShareADraw) {
  // 4096 draws of 32 bits collide by chance with probability 2^-9; this seed's
  // do not.
  std::set<uint32_t> draws;
  for (uint64_t index = 0; index < 4096; ++index)
    draws.insert(dropoutDraw(1, 2, 3, index));
  EXPECT_EQ(draws.size(), 4096u);
}

TEST(Dropout, KeepsTheRate) {
  constexpr int n = 1 << 18;
  for (double rate : {0.0, 0.1, 0.5, 0.9}) {
    int dropped = 0;
    for (uint64_t index = 0; index < n; ++index)
      dropped += dropoutDraw(4, 5, 6, index) < dropoutThreshold(rate);
    // Four standard deviations of a binomial count.
    EXPECT_NEAR(dropped, n * rate, 4 * std::sqrt(n * rate * (1 - rate)));
  }
}

TEST(Dropout, PacksTheWordsOfAStep) {
  auto words = randomWords(0x8123456789ABCDEF, 0x9ABC87654321, 3);
  EXPECT_EQ(uint32_t(words[0]), 0x89ABCDEFu);
  EXPECT_EQ(uint32_t(words[1]), 0x81234567u);
  EXPECT_EQ(uint32_t(words[2]), 0x87654321u);
  EXPECT_EQ(uint32_t(words[3]), 0x9ABCu);
  EXPECT_EQ(words[4], 3);
}
