//===- ScratchCostsTest.cpp - What copies to a scratch file take ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure/ScratchCosts.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace optrt;

namespace {

TEST(ScratchCosts, AreThoseOfADisk) {
  const auto costs =
      measureScratchCosts(std::filesystem::temp_directory_path(), /*rounds=*/1);
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  for (const ScratchCost &one : {costs->in, costs->out}) {
    EXPECT_GT(one.bytesPerSecond, 1e6);
    EXPECT_GE(one.processorSeconds, 0);
    // No processor takes longer than the copy.
    EXPECT_LE(one.processorSeconds, 1.5 / one.bytesPerSecond);
  }
}

TEST(ScratchCosts, NeedAFolder) {
  const auto costs = measureScratchCosts("/nowhere/at/all", /*rounds=*/1);
  ASSERT_FALSE(costs.ok());
  EXPECT_EQ(costs.status().message(),
            "cannot make a scratch file in '/nowhere/at/all': No such file or "
            "directory; name a folder on a disk with --scratch DIR");
}

} // namespace
