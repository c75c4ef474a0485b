//===- BFloat16Test.cpp - Rounding to bf16 --------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/BFloat16.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace optimus_support;

TEST(BFloat16, EveryNumberStaysWhatItIs) {
  for (uint32_t bits = 0; bits != 65536; ++bits) {
    float value = fromBFloat16(static_cast<uint16_t>(bits));
    uint16_t back = toBFloat16(value);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromBFloat16(back)));
    else
      EXPECT_EQ(back, bits);
  }
}

TEST(BFloat16, TakesTheNearestAndOfTwoTheEvenOne) {
  // Between neighbours of every exponent: what is nearer, and the middle.
  for (uint32_t bits = 0; bits != 0x7F80; ++bits)
    for (uint32_t sign : {0u, 0x8000u}) {
      uint32_t low = bits | sign, start = low << 16;
      auto rounded = [&](uint32_t more) {
        return toBFloat16(std::bit_cast<float>(start + more));
      };
      EXPECT_EQ(rounded(1), low);
      EXPECT_EQ(rounded(0x7FFF), low);
      EXPECT_EQ(rounded(0x8000), low + (low & 1));
      EXPECT_EQ(rounded(0x8001), low + 1);
      EXPECT_EQ(rounded(0xFFFF), low + 1);
    }
}

TEST(BFloat16, LargeNumbersBecomeInfiniteAndNaNStays) {
  float most = std::numeric_limits<float>::max();
  EXPECT_EQ(fromBFloat16(toBFloat16(most)), INFINITY);
  EXPECT_EQ(fromBFloat16(toBFloat16(-most)), -INFINITY);
  // A NaN whose high bits alone would be infinity, and another, turned into
  // zero by an addition.
  for (uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_TRUE(
        std::isnan(fromBFloat16(toBFloat16(std::bit_cast<float>(bits)))));
}
