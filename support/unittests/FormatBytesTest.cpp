//===- FormatBytesTest.cpp - Sizes of memory for people -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/FormatBytes.h"

#include <gtest/gtest.h>

using optimus_support::formatBytes;

namespace {

TEST(FormatBytes, UnitsAreBinary) {
  EXPECT_EQ(formatBytes(9999), "9999 B");
  EXPECT_EQ(formatBytes(10240), "10 KiB");
  EXPECT_EQ(formatBytes(int64_t(3) << 30), "3 GiB");
}

} // namespace
