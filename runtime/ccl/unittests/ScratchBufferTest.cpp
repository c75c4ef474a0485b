//===- ScratchBufferTest.cpp - Memory that collectives share --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ScratchBuffer.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>

using namespace optrt;

namespace {

TEST(ScratchBufferTest, KeepsItsMemoryUntilMoreIsAskedFor) {
  ScratchBuffer buffer;
  EXPECT_EQ(buffer.reserve(0), nullptr);
  std::byte *small = buffer.reserve(100);
  std::fill_n(small, 100, std::byte(1));
  EXPECT_EQ(buffer.reserve(50), small);
  std::byte *large = buffer.reserve(1 << 20);
  std::fill_n(large, 1 << 20, std::byte(2));
  EXPECT_EQ(buffer.reserve(100), large);
  EXPECT_EQ(buffer.data(), large);
  EXPECT_EQ(large[99], std::byte(2));
}

TEST(ScratchBufferTest, GivesUpWhatDoesNotFitWithAnError) {
  ScratchBuffer buffer;
  EXPECT_THROW(buffer.reserve(SIZE_MAX / 2), std::bad_alloc);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_NE(buffer.reserve(8), nullptr);
}

} // namespace
