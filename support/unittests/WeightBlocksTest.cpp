//===- WeightBlocksTest.cpp - Weights of few bits -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/WeightBlocks.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <random>
#include <vector>

using namespace optimus_support;
using testing::Each;
using testing::ElementsAre;

namespace {

std::vector<float> roundTrip(WeightBlocks blocks, const std::vector<float> &x) {
  const BlockLayout layout{blocks, static_cast<int64_t>(x.size()), 1};
  std::vector<int32_t> words(*layout.words().get(), -1);
  writeBlocks(layout, x.data(), 1, 1, 0, 1, words.data());
  std::vector<float> result(x.size());
  readBlocks(layout, words.data(), 0, 0, layout.k, result.data());
  return result;
}

TEST(WeightBlocks, Int8RoundsHalvesAwayFromZero) {
  // A scale of 1.
  std::vector<float> x(32, 0);
  x[0] = 127, x[1] = 0.5f, x[2] = -0.5f, x[3] = 2.5f, x[4] = -1.49f;
  const std::vector<float> found = roundTrip(WeightBlocks::Int8, x);
  EXPECT_THAT(std::vector(found.begin(), found.begin() + 5),
              ElementsAre(127, 1, -1, 3, -1));
}

TEST(WeightBlocks, Int4HasTheSignOfTheLargest) {
  // The first of equal magnitudes becomes -8, and 7 is the most on the other
  // side.
  std::vector<float> x(32, 0);
  x[0] = -16, x[1] = 16, x[17] = 15, x[18] = -15, x[31] = 0.99f;
  const std::vector<float> found = roundTrip(WeightBlocks::Int4, x);
  EXPECT_EQ(found[0], -16);
  EXPECT_EQ(found[1], 14);
  EXPECT_EQ(found[17], 14);
  EXPECT_EQ(found[18], -14);
  EXPECT_EQ(found[31], 0);
  for (float &value : x)
    value = -value;
  const std::vector<float> turned = roundTrip(WeightBlocks::Int4, x);
  for (int i = 0; i != 32; ++i)
    EXPECT_EQ(turned[i], -found[i]);
}

/// Of elements of all sizes, some of them halves of a scale and zeros, each as
/// the formulas have it.
TEST(WeightBlocks, IntegersAreThoseOfTheFormulas) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial != 2000; ++trial) {
    std::vector<float> x(kBlockElements);
    const float unit = std::ldexp(1.f, trial % 200 - 100);
    for (float &value : x)
      value = unit * (trial % 3 == 0   ? normal(random)
                      : trial % 3 == 1 ? float(random() % 255) / 2 - 63.5f
                                       : 0.f);
    if (trial % 3 == 2)
      x[random() % 32] = -0.f, x[0] = trial % 2 ? -0.f : unit;
    float most = 0, largest = 0;
    for (float value : x) {
      most = std::max(most, std::fabs(value));
      if (std::fabs(value) > std::fabs(largest))
        largest = value;
    }
    auto inverseOf = [](float scale) { return scale != 0 ? 1 / scale : 0; };
    std::vector<uint8_t> int8, int4(16);
    for (int64_t i = 0; i != kBlockElements; ++i) {
      int8.push_back(static_cast<uint8_t>(
          static_cast<int8_t>(std::round(x[i] * inverseOf(most / 127)))));
      const float sum = std::fma(x[i], inverseOf(largest / -8), 8.5f);
      int4[i % 16] |= static_cast<uint8_t>(std::clamp(sum, 0.f, 15.f))
                      << (i / 16 * 4);
    }
    for (WeightBlocks blocks : {WeightBlocks::Int8, WeightBlocks::Int4}) {
      const BlockLayout layout{blocks, kBlockElements, 1};
      std::vector<uint32_t> words(*layout.words().get());
      writeBlocks(layout, x.data(), 1, 1, 0, 1, words.data());
      const bool isInt8 = blocks == WeightBlocks::Int8;
      const std::vector<uint8_t> &expected = isInt8 ? int8 : int4;
      const auto *bytes = reinterpret_cast<const uint8_t *>(words.data());
      std::vector<uint8_t> found;
      for (std::size_t i = 0; i != expected.size(); ++i)
        found.push_back(bytes[i * kColumnUnit]);
      ASSERT_EQ(found, expected) << trial;
      uint16_t scale;
      std::memcpy(&scale, bytes + layout.scaleAt(0, 0), 2);
      ASSERT_EQ(scale, toFloat16(isInt8 ? most / 127 : largest / -8)) << trial;
    }
  }
}

TEST(WeightBlocks, ScalesAreRoundedAfterIntegersAre) {
  // An f16 has 11 bits.
  std::vector<float> x(32, 0);
  x[0] = 127 * (1 + 0x1p-12f);
  EXPECT_EQ(roundTrip(WeightBlocks::Int8, x)[0], 127);
  x[0] = 127 * (1 + 0x1.8p-11f);
  EXPECT_EQ(roundTrip(WeightBlocks::Int8, x)[0], 127 * (1 + 0x1p-10f));
}

TEST(WeightBlocks, PanelsHavePairsOfRows) {
  // 3 x 65, transposed: two panels of 32 rows.
  const BlockLayout layout{WeightBlocks::BF16, 3, 65};
  ASSERT_EQ(*layout.words().get(), 2 * 16 * 64);
  std::vector<float> x(3 * 65);
  for (std::size_t i = 0; i != x.size(); ++i)
    x[i] = static_cast<float>(i);
  std::vector<uint32_t> words(*layout.words().get(), 0xDEAD);
  writeBlocks(layout, x.data(), 1, 3, 0, 64, words.data());
  writeBlocks(layout, x.data(), 1, 3, 64, 65, words.data());
  auto wordOf = [](float low, float high) {
    return toBFloat16(low) | uint32_t(toBFloat16(high)) << 16;
  };
  EXPECT_EQ(words[2], wordOf(6, 7));
  EXPECT_EQ(words[64 + 2], wordOf(8, 0));
  EXPECT_EQ(words[16 * 64], wordOf(192, 193));
  EXPECT_THAT(
      std::vector(words.begin() + 16 * 64 + 1, words.begin() + 16 * 64 + 64),
      Each(0u));
  EXPECT_THAT(std::vector(words.begin() + 128, words.begin() + 16 * 64),
              Each(0u));
  // From an odd row, and with what an element is off by at most.
  std::vector<float> found(2);
  std::vector<double> bounds(2);
  readBlocks(layout, words.data(), 64, 1, 3, found.data(), bounds.data());
  EXPECT_THAT(found, ElementsAre(193, 194));
  EXPECT_THAT(bounds, ElementsAre(193. / 256, 194. / 256));
  const std::vector<float> rounded =
      roundTrip(WeightBlocks::BF16, {1 + 0x1p-8f, 1 + 0x1.8p-7f, NAN});
  EXPECT_EQ(rounded[0], 1);
  EXPECT_EQ(rounded[1], 1 + 0x1p-6f);
  EXPECT_TRUE(std::isnan(rounded[2]));
}

TEST(WeightBlocks, OneBlockChangesNoOther) {
  std::vector<float> x(96, 0);
  x[40] = NAN, x[64] = 1;
  for (WeightBlocks blocks : {WeightBlocks::Int8, WeightBlocks::Int4}) {
    const std::vector<float> found = roundTrip(blocks, x);
    EXPECT_THAT(std::vector(found.begin(), found.begin() + 32), Each(0.f));
    for (int i = 32; i != 64; ++i)
      EXPECT_TRUE(std::isnan(found[i]));
    EXPECT_NEAR(found[64], 1, 1e-3);
  }
}

/// Of a matrix, in either order, a part at a time; and an element errs by half
/// a scale and by what its scale was rounded by.
TEST(WeightBlocks, ColumnsAreThoseOfTheMatrix) {
  constexpr int64_t k = 64, n = 5;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(k * n), cols(k * n);
  for (int64_t i = 0; i != k; ++i)
    for (int64_t j = 0; j != n; ++j)
      rows[i * n + j] = cols[j * k + i] = normal(random);
  for (WeightBlocks blocks : {WeightBlocks::Int8, WeightBlocks::Int4}) {
    const BlockLayout layout{blocks, k, n};
    std::vector<int32_t> first(*layout.words().get(), -1), second = first;
    // Two blocks of sixteen columns.
    EXPECT_EQ(first.size() * 4,
              2 * 16 * (blocks == WeightBlocks::Int8 ? 34 : 18));
    writeBlocks(layout, rows.data(), n, 1, 0, n, first.data());
    writeBlocks(layout, cols.data(), 1, k, 3, n, second.data());
    writeBlocks(layout, cols.data(), 1, k, 0, 3, second.data());
    EXPECT_EQ(first, second);
    std::vector<float> found(32);
    for (int64_t col = 0; col != n; ++col) {
      readBlocks(layout, first.data(), col, 32, 64, found.data());
      float most = 0;
      for (int64_t i = 0; i != 32; ++i)
        most = std::max(most, std::abs(cols[col * k + 32 + i]));
      // Int4 has 7 steps on one side.
      const float step = blocks == WeightBlocks::Int8 ? most / 254 : most / 8;
      for (int64_t i = 0; i != 32; ++i)
        EXPECT_NEAR(found[i], cols[col * k + 32 + i],
                    step * (1 + 0x1p-9f) + most * 0x1p-11f);
    }
  }
}

/// Columns of random elements, some blocks of which are small or have two
/// sizes.
class BoundOfBlocks : public testing::TestWithParam<WeightBlocks> {
protected:
  static constexpr int64_t kColumns = 3;

  void SetUp() override {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i != layout.k * kColumns; ++i) {
      const float scale = std::ldexp(1.0f, -int(i / kBlockElements) % 24);
      given.push_back(normal(random) * (i % 7 == 0 ? 5 : 1) * scale);
    }
    words.resize(*layout.words().get());
    writeBlocks(layout, given.data(), 1, layout.k, 0, kColumns, words.data());
  }

  uint16_t *scaleOf(int64_t number) {
    const int64_t blocks = layout.blocksOfColumn();
    return reinterpret_cast<uint16_t *>(
        reinterpret_cast<char *>(words.data()) +
        layout.scaleAt(number / blocks, number % blocks));
  }
  /// Whether all elements are within their bounds, and products with some x.
  bool holds() {
    std::normal_distribution<double> normal;
    std::vector<float> values(layout.k);
    std::vector<double> bounds(layout.k);
    bool elements = true, products = true;
    for (int64_t col = 0; col != kColumns; ++col) {
      readBlocks(layout, words.data(), col, 0, layout.k, values.data(),
                 bounds.data());
      for (int64_t block = 0; block != layout.blocksOfColumn(); ++block) {
        double error = 0, most = 0;
        for (int64_t i = 0; i != kBlockElements; ++i) {
          const int64_t k = block * kBlockElements + i;
          const double off = double(given[col * layout.k + k]) - values[k];
          elements &= std::fabs(off) <= bounds[k];
          // Signs that add errors up.
          const double x = std::copysign(normal(random), off);
          error += x * off, most += std::fabs(x) * bounds[k];
        }
        products &= std::fabs(error) <= most;
      }
    }
    EXPECT_TRUE(products || !elements);
    return elements;
  }

  const BlockLayout layout{GetParam(), 32 * 24, kColumns};
  std::mt19937 random{3};
  std::vector<float> given;
  std::vector<int32_t> words;
};

TEST_P(BoundOfBlocks, HoldsElementsAndProducts) { EXPECT_TRUE(holds()); }

/// By its largest element, of 127 or 8 scales.
TEST_P(BoundOfBlocks, FindsEachWrongScale) {
  const bool isInt8 = GetParam() == WeightBlocks::Int8;
  for (int64_t number = 0; number != layout.blocksOfColumn() * kColumns;
       ++number) {
    const uint16_t right = *scaleOf(number);
    // Of a scale below f16's normal numbers only few bits are left.
    if (std::fabs(fromFloat16(right)) < 0x1p-12f)
      continue;
    for (float factor : {2.0f, 0.5f, -1.0f, 0.0f, isInt8 ? 1.02f : 1.2f}) {
      *scaleOf(number) = toFloat16(fromFloat16(right) * factor);
      EXPECT_FALSE(holds()) << number << " times " << factor;
    }
    *scaleOf(number) = right;
  }
  EXPECT_TRUE(holds());
}

INSTANTIATE_TEST_SUITE_P(All, BoundOfBlocks,
                         testing::Values(WeightBlocks::Int8,
                                         WeightBlocks::Int4));

} // namespace
