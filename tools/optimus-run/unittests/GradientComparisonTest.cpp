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

constexpr double kUnit = 0x1p-24;

/// A pair of which both programs answer to perturbation as they compute.
TensorPair steady(std::string name, std::span<const float> a,
                  std::span<const float> b, double rounding = 10) {
  return {std::move(name), {a, a, rounding}, {b, b, rounding}};
}

TensorComparison compareOne(const TensorPair &pair) {
  return compareTensors({&pair, 1}).front();
}

TEST(GradientComparison, BoundHasWhatBothProgramsRound) {
  std::vector<float> values(100, 1.0f);
  TensorPair pair{"x", {values, values, 30}, {values, values, 40}};
  TensorComparison result = compareOne(pair);
  // 4 u sqrt(30^2 + 40^2), at the condition of 1 that every result has.
  EXPECT_DOUBLE_EQ(result.bound, 4 * kUnit * 50);
  EXPECT_EQ(result.amplification, 1);
  EXPECT_EQ(result.ofBound(), 0);
}

TEST(GradientComparison, BoundGrowsWithWhatParametersDo) {
  std::vector<float> values(100, 1.0f), moved(100, 1.0f + 0x1p-20f);
  // 16 units of change by 4 parameters: 8 by one.
  TensorPair pair{"x", {values, moved, 30, 4}, {values, values, 40, 4}};
  TensorComparison result = compareOne(pair);
  EXPECT_DOUBLE_EQ(result.amplification, 8);
  EXPECT_DOUBLE_EQ(result.bound, 8 * 4 * kUnit * 50);
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
  double rounding = std::sqrt(kLength);
  TensorComparison result =
      compareOne(steady("x", forwards, backwards, rounding));
  EXPECT_TRUE(result.same) << result.ofBound();
  EXPECT_GT(result.ofBound(), 1e-3);

  backwards[5] *= 1.005f;
  result = compareOne(steady("x", forwards, backwards, rounding));
  EXPECT_FALSE(result.same) << result.ofBound();
}

TEST(GradientComparison, ReportsWhatIsBeyondItsBound) {
  std::vector<float> values(100, 1.0f), large(100, 1e3f);
  double bound = compareOne(steady("x", values, values)).bound;
  for (double factor : {0.5, 2.0, 10.0}) {
    std::vector<float> altered(values);
    // The norm of the tensor is 10.
    altered[17] += static_cast<float>(factor * bound * 10);
    std::vector<TensorPair> pairs{steady("other", large, large),
                                  steady("x", values, altered)};
    TensorComparison result = compareTensors(pairs)[1];
    EXPECT_EQ(result.same, factor < 1);
    // The element is rounded to a part in 2^24, the bound is 57 of them.
    EXPECT_NEAR(result.ofBound(), factor, 0.02);
  }
}

TEST(GradientComparison, ATensorThatIsOnlyRoundingIsMeasuredByItsNoise) {
  std::vector<float> large(100, 1.0f), a{1e-9f}, b{-1e-9f}, c{2e-9f};
  std::vector<TensorPair> pairs{steady("large", large, large),
                                {"noise", {a, c, 10}, {b, a, 10}}};
  EXPECT_TRUE(compareTensors(pairs)[1].same);
}

TEST(GradientComparison, NoiseExcusesAThousandthOfTheWholeAtMost) {
  // As if b read memory that nobody wrote.
  std::vector<float> a(100, 1.0f), b(100, 1.01f), c(100, -3.0f);
  TensorPair pair{"x", {a, a, 10}, {b, c, 10}};
  TensorComparison result = compareOne(pair);
  EXPECT_FALSE(result.same);
  EXPECT_NEAR(result.bound, 1e-3, 1e-4);
}

TEST(GradientComparison, NotANumberDiffers) {
  std::vector<float> a{1.0f}, b{std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(compareOne(steady("x", a, b)).same);
  EXPECT_FALSE(compareOne(steady("x", b, a)).same);
  EXPECT_FALSE(compareOne(steady("x", b, b)).same);
  std::vector<float> c{std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(compareOne(steady("x", a, c)).same);
  // Neither does what only the perturbed run made of it excuse anything.
  std::vector<float> d{1.1f};
  EXPECT_FALSE(compareOne({"x", {a, b, 10}, {d, d, 10}}).same);
}

} // namespace
