//===- GradientComparisonTest.cpp - Whether two gradients are the same ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientComparison.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace optimus_run;

namespace {

optrt::Manifest manifestOf(int64_t tokens, int64_t extent, int matrices) {
  optrt::Manifest manifest;
  manifest.batch = tokens;
  manifest.sequence = 1;
  for (int i = 0; i != matrices; ++i) {
    optrt::Param param;
    param.hfShape = {extent, extent};
    manifest.params.push_back(param);
  }
  return manifest;
}

TEST(GradientComparison, BoundGrowsWithLengthAndDepth) {
  double base = roundingBound(manifestOf(256, 16, 3));
  // sqrt(4) for four times the longest contraction.
  EXPECT_DOUBLE_EQ(roundingBound(manifestOf(1024, 16, 3)), 2 * base);
  EXPECT_DOUBLE_EQ(roundingBound(manifestOf(16, 1024, 3)), 2 * base);
  // With one more matrix for the loss, 16 instead of 4: sqrt(4) again.
  EXPECT_DOUBLE_EQ(roundingBound(manifestOf(256, 16, 15)), 2 * base);
  // 4 u sqrt(2 * 3 * 4 * 256).
  EXPECT_DOUBLE_EQ(base, 4 * 0x1p-24 * std::sqrt(6144.0));
}

// Dot products of random numbers, summed in two orders, stay within the bound
// of a single product, and a single wrong element does not.
TEST(GradientComparison, SeparatesRoundingFromMistakes) {
  constexpr int kLength = 4096, kResults = 64;
  uint32_t state = 1;
  auto random = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / (1 << 23) - 1.0f;
  };
  std::vector<float> forwards(kResults), backwards(kResults);
  for (int r = 0; r != kResults; ++r) {
    std::vector<float> terms(kLength);
    for (float &term : terms)
      term = random() * random();
    for (int i = 0; i != kLength; ++i) {
      forwards[r] += terms[i];
      backwards[r] += terms[kLength - 1 - i];
    }
  }
  double bound = roundingBound(manifestOf(kLength, 1, 0));
  TensorPair pair{"x", forwards, backwards};
  std::vector<TensorComparison> results = compareTensors({&pair, 1}, bound);
  EXPECT_TRUE(results[0].same) << results[0].relativeDifference;
  EXPECT_GT(results[0].relativeDifference, 0);

  backwards[5] *= 1.005f;
  results = compareTensors({&pair, 1}, bound);
  EXPECT_FALSE(results[0].same) << results[0].relativeDifference;
}

TEST(GradientComparison, TinyTensorsAreMeasuredAgainstTheWholeGradient) {
  std::vector<float> large(100, 1.0f), a{1e-9f}, b{-1e-9f};
  std::vector<TensorPair> pairs{{"large", large, large}, {"tiny", a, b}};
  std::vector<TensorComparison> results = compareTensors(pairs, 1e-5);
  EXPECT_TRUE(results[1].same);
  EXPECT_EQ(results[0].relativeDifference, 0);
}

TEST(GradientComparison, NotANumberDiffers) {
  std::vector<float> a{1.0f}, b{std::numeric_limits<float>::quiet_NaN()};
  TensorPair pair{"x", a, b}, reversed{"x", b, a}, both{"x", b, b};
  EXPECT_FALSE(compareTensors({&pair, 1}, 1.0)[0].same);
  EXPECT_FALSE(compareTensors({&reversed, 1}, 1.0)[0].same);
  EXPECT_FALSE(compareTensors({&both, 1}, 1.0)[0].same);
}

} // namespace
