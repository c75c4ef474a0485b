//===- PhiloxTest.cpp - Counter-based random numbers ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

using namespace optimus_support;

using Words = std::array<uint32_t, 4>;

// The known answers that Random123 publishes for philox4x32-10.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, LaysOutTheCounterAsDocumented) {
  uint64_t seed = 0x1122334455667788, step = 0xABCD99AABBCC;
  uint64_t block = 0x123487654321;
  Words words = philox4x32({0x87654321, 0xABCD1234, 0x99AABBCC, 0xDDEEFF00},
                           {0x55667788, 0x11223344});
  std::array<uint64_t, 2> expected = {uint64_t(words[1]) << 32 | words[0],
                                      uint64_t(words[3]) << 32 | words[2]};
  EXPECT_EQ(philoxBlock(seed, 0xDDEEFF00, step, block), expected);
}

/// Box-Muller as documented, with the C library's functions.
static double referenceNormal(uint64_t seed, uint32_t stream, uint64_t step,
                              uint64_t index) {
  auto [first, second] = philoxBlock(seed, stream, step, index / 2);
  double u = double((first >> 11) + 1) / 0x1p53;
  double t = double(second >> 11) / 0x1p53;
  double radius = std::sqrt(-2 * std::log(u));
  double angle = 2 * std::numbers::pi * t;
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

TEST(Philox, NormalFollowsTheFormula) {
  for (uint64_t index = 0; index < 200000; ++index) {
    double expected = referenceNormal(3, 9, 0, index);
    float value = normal(3, 9, 0, index);
    // Rounding to float costs 2^-24 relative. The doubles before it, a few
    // units in the last place each, cost less than 2^-45, except that the
    // angle, below 8, is rounded to 2^-50 in the reference: absolute where
    // sine or cosine are near zero, times the radius, which is below 9.
    double tolerance = std::abs(expected) * (0x1p-24 + 0x1p-45) + 9 * 0x1p-50;
    ASSERT_NEAR(value, expected, tolerance) << "element " << index;
  }
}

// From a separate implementation with Python's integers and math module.
TEST(Philox, NormalIsTheDocumentedOne) {
  EXPECT_EQ(normal(1, 0, 0, 0), -0x1.d1a254p-4f);
  EXPECT_EQ(normal(1, 0, 0, 1), -0x1.d4dbc8p-2f);
  EXPECT_EQ(normal(1, 2, 0, 12345), -0x1.389dep-3f);
  EXPECT_EQ(
      normal(UINT64_MAX, 7, (uint64_t(1) << 40) + 3, (uint64_t(1) << 45) + 1),
      0x1.5bbb48p-2f);
}

TEST(Philox, FillIsIndependentOfTheSplit) {
  constexpr int64_t size = 3000;
  constexpr uint64_t base = (uint64_t(1) << 33) + 5; // odd, beyond 32 bits
  std::vector<float> whole(size), parts(size);
  fillNormal(11, 4, base, size, 1.0, whole.data());
  for (int64_t i = 0; i < size; ++i)
    ASSERT_EQ(whole[i], normal(11, 4, 0, base + i)) << "element " << i;

  for (int64_t step : {1, 2, 3, 7, 511, 512, 513, 1024}) {
    std::fill(parts.begin(), parts.end(), NAN);
    for (int64_t i = 0; i < size; i += step)
      fillNormal(11, 4, base + i, std::min(step, size - i), 1.0, &parts[i]);
    ASSERT_EQ(std::memcmp(parts.data(), whole.data(), size * sizeof(float)), 0)
        << "in runs of " << step;
  }
}

TEST(Philox, FillWritesNothingElse) {
  std::vector<float> out(8, -7.0f);
  fillNormal(1, 1, 1, 0, 1.0, out.data() + 2);
  fillNormal(1, 1, 1, 3, 1.0, out.data() + 2);
  for (int i : {0, 1, 5, 6, 7})
    EXPECT_EQ(out[i], -7.0f);
  for (int i : {2, 3, 4})
    EXPECT_NE(out[i], -7.0f);
}

TEST(Philox, FillScalesBeforeRounding) {
  constexpr int64_t size = 1000;
  std::vector<float> out(size);
  fillNormal(2, 3, 0, size, 0.02, out.data(), /*step=*/5);
  for (int64_t i = 0; i < size; ++i) {
    double expected = 0.02 * referenceNormal(2, 3, 5, i);
    // As in NormalFollowsTheFormula.
    ASSERT_NEAR(out[i], expected,
                std::abs(expected) * (0x1p-24 + 0x1p-45) + 9 * 0x1p-50);
  }
}

TEST(Philox, NormalHasItsDistribution) {
  constexpr int64_t size = 1 << 20;
  std::vector<float> values(size);
  fillNormal(1234, 0, 0, size, 1.0, values.data());
  double sum = 0, squares = 0, fourth = 0, neighbours = 0;
  for (int64_t i = 0; i < size; ++i) {
    double x = values[i];
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += i ? x * values[i - 1] : 0;
  }
  // Five standard deviations of each mean: the moments x, x^2, x^4 and x*y of
  // normal numbers have variances 1, 2, 96 and 1.
  double root = std::sqrt(double(size));
  EXPECT_NEAR(sum / size, 0, 5 / root);
  EXPECT_NEAR(squares / size, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / size, 3, 5 * std::sqrt(96.0) / root);
  EXPECT_NEAR(neighbours / size, 0, 5 / root);

  // Kolmogorov's statistic exceeds 1.95 once in 1000 seeds; this one is fixed.
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (int64_t i = 0; i < size; ++i) {
    double below = 0.5 * std::erfc(-values[i] / std::numbers::sqrt2);
    distance = std::max({distance, std::abs(below - double(i) / size),
                         std::abs(below - double(i + 1) / size)});
  }
  EXPECT_LT(distance * root, 1.95);
}

TEST(Philox, CoordinatesAreIndependent) {
  float value = normal(1, 2, 3, 4);
  EXPECT_NE(value, normal(2, 2, 3, 4));
  EXPECT_NE(value, normal(1 + (uint64_t(1) << 32), 2, 3, 4));
  EXPECT_NE(value, normal(1, 3, 3, 4));
  EXPECT_NE(value, normal(1, 2, 4, 4));
  EXPECT_NE(value, normal(1, 2, 3 + (uint64_t(1) << 32), 4));
  EXPECT_NE(value, normal(1, 2, 3, 6));
  EXPECT_NE(value, normal(1, 2, 3, 4 + (uint64_t(1) << 33)));
}

TEST(PhiloxSequence, DrawsTheWordsOfItsBlocks) {
  PhiloxSequence draws(8, 5, 2);
  for (uint64_t block = 0; block < 5; ++block)
    for (uint64_t word : philoxBlock(8, 5, 2, block))
      EXPECT_EQ(draws.next(), word);
}

TEST(PhiloxSequence, BelowSkipsTheExcess) {
  // 2^64 holds this n once, and a quarter of all draws is above it.
  uint64_t n = 3 * (uint64_t(1) << 62);
  PhiloxSequence draws(8, 5, 2), words(8, 5, 2);
  int skipped = 0;
  for (int i = 0; i < 1000; ++i) {
    uint64_t expected = words.next();
    for (; expected >= n; expected = words.next())
      ++skipped;
    ASSERT_EQ(draws.below(n), expected);
  }
  EXPECT_GT(skipped, 200);
}

TEST(PhiloxSequence, BelowIsExactForPowersOfTwoAndOne) {
  PhiloxSequence draws(8, 5, 2), words(8, 5, 2);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(draws.below(1), words.next() % 1);
    EXPECT_EQ(draws.below(1 << 20), words.next() % (1 << 20));
    EXPECT_EQ(draws.below(uint64_t(1) << 63),
              words.next() % (uint64_t(1) << 63));
  }
}
