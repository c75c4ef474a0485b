//===- Float16Test.cpp - Rounding to f16 ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Float16.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>

using namespace optimus_support;

namespace {

/// The definition: ±(1 + f/1024)·2^(e−15), or ±f/1024·2^−14 where e is 0.
double valueOf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Float16, EveryNumberIsWhatItsBitsSay) {
  for (uint32_t bits = 0; bits != 65536; ++bits) {
    const float value = fromFloat16(static_cast<uint16_t>(bits));
    const uint16_t back = toFloat16(value);
    const uint32_t magnitude = bits & 0x7FFF;
    EXPECT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (magnitude > 0x7C00) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(fromFloat16(back))) << bits;
      continue;
    }
    if (magnitude == 0x7C00)
      EXPECT_TRUE(std::isinf(value)) << bits;
    else
      EXPECT_EQ(value, valueOf(static_cast<uint16_t>(bits))) << bits;
    EXPECT_EQ(back, bits);
  }
}

TEST(Float16, TakesTheNearestAndOfTwoTheEvenOne) {
  // The middle of neighbours, and f32's neighbours of that. Above the largest
  // there would be 65536.
  for (uint32_t bits = 0; bits != 0x7C00; ++bits)
    for (uint32_t sign : {0u, 0x8000u}) {
      const uint32_t low = bits | sign;
      const double from = std::abs(valueOf(static_cast<uint16_t>(low))),
                   to = bits == 0x7BFF
                            ? 65536
                            : valueOf(static_cast<uint16_t>(bits + 1));
      const float middle = static_cast<float>((from + to) / 2);
      auto rounded = [&](float magnitude) {
        return toFloat16(sign ? -magnitude : magnitude);
      };
      EXPECT_EQ(rounded(middle), low + (low & 1));
      EXPECT_EQ(rounded(std::nextafter(middle, 0.0f)), low);
      EXPECT_EQ(rounded(std::nextafter(middle, INFINITY)), low + 1);
    }
}

TEST(Float16, WhatIsOutOfRangeBecomesInfiniteOrZero) {
  EXPECT_EQ(fromFloat16(toFloat16(65536)), INFINITY);
  EXPECT_EQ(fromFloat16(toFloat16(-1e30f)), -INFINITY);
  EXPECT_EQ(fromFloat16(toFloat16(INFINITY)), INFINITY);
  EXPECT_EQ(toFloat16(1e-30f), 0);
  EXPECT_EQ(toFloat16(-1e-45f), 0x8000);
  // A NaN whose upper bits alone would be infinity.
  for (uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_TRUE(std::isnan(fromFloat16(toFloat16(std::bit_cast<float>(bits)))));
}

} // namespace
