//===- CpuInfoTest.cpp - What Linux says of the processor -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/CpuInfo.h"

#include <gtest/gtest.h>

using namespace optimus_support;

namespace {

constexpr std::string_view kTwoCores =
    "processor\t: 0\nmodel name\t: A processor: fast\nmodel\t\t: 143\n"
    "power management:\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nmodel\t\t: 7\n";

TEST(CpuInfo, FindsTheFirstLineWithAName) {
  EXPECT_EQ(findCpuInfo(kTwoCores, "processor"), "0");
  EXPECT_EQ(findCpuInfo(kTwoCores, "flags"), "fpu avx2");
}

TEST(CpuInfo, TakesWholeNames) {
  EXPECT_EQ(findCpuInfo(kTwoCores, "model"), "143");
  EXPECT_EQ(findCpuInfo(kTwoCores, "model name"), "A processor: fast");
  EXPECT_EQ(findProcessorName(kTwoCores), "A processor: fast");
  EXPECT_EQ(findProcessorName("CPU part\t: 0xd0c\n"), "processor 0xd0c");
  EXPECT_EQ(findProcessorName("flags : fpu\n"), "");
  EXPECT_EQ(findCpuInfo(kTwoCores, "mod"), std::nullopt);
}

TEST(CpuInfo, TellsAnEmptyValueFromNone) {
  EXPECT_EQ(findCpuInfo(kTwoCores, "power management"), "");
  EXPECT_EQ(findCpuInfo(kTwoCores, "CPU part"), std::nullopt);
  EXPECT_EQ(findCpuInfo("", "flags"), std::nullopt);
}

} // namespace
