//===- HashTest.cpp - 64-bit hashes and their text ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

using namespace optimus_support;

// The reference values of XXH64 with seed 0, from the algorithm's own tools.
TEST(Hash, IsXXH64) {
  EXPECT_EQ(hash64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(hash64("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(hash64("abc"), 0x44BC2CF5AD770999u);
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += std::to_string(i);
  for (size_t piece : {1, 7, 31, 32, 33, 1000}) {
    Hash64 hash;
    EXPECT_EQ(hash.digest(), hash64(""));
    for (size_t begin = 0; begin < text.size(); begin += piece) {
      size_t bytes = std::min(piece, text.size() - begin);
      hash.update(text.data() + begin, bytes);
      EXPECT_EQ(hash.digest(), hash64(text.substr(0, begin + bytes)));
    }
  }
}

TEST(Hash, TextRoundTrips) {
  EXPECT_EQ(hashToHex(0x0123456789abcdefu), "0123456789abcdef");
  EXPECT_EQ(hashToHex(7), "0000000000000007");
  for (uint64_t hash : {uint64_t(0), uint64_t(1), UINT64_MAX, hash64("x")})
    EXPECT_EQ(hashFromHex(hashToHex(hash)), hash);
}

TEST(Hash, RejectsOtherText) {
  EXPECT_FALSE(hashFromHex(""));
  EXPECT_FALSE(hashFromHex("0123456789abcde"));
  EXPECT_FALSE(hashFromHex("0123456789abcdef0"));
  EXPECT_FALSE(hashFromHex("0123456789abcdeg"));
  EXPECT_FALSE(hashFromHex("0123456789ABCDEF"));
  EXPECT_FALSE(hashFromHex(" 123456789abcdef"));
}
