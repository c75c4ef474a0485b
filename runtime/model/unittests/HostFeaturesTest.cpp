//===- HostFeaturesTest.cpp - What this processor can do ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/HostFeatures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

constexpr std::string_view kCpuInfo =
    "processor\t: 0\nmodel name\t: Some\nflags\t\t: fpu pni ssse3 sse4_1 abm "
    "bmi1 avx avx2 fma avx512vl avx512_vnni amx_tile sha_ni\nbugs\t: none\n"
    "flags_of_another_line\t: avx512_bf16\n";

std::vector<std::string> missing(std::vector<std::string> features) {
  return missingFeatures(features, kCpuInfo);
}

TEST(HostFeatures, KnowsBothSpellings) {
  EXPECT_THAT(missing({"sse3", "ssse3", "sse4.1", "lzcnt", "bmi", "avx2", "fma",
                       "avx512vl", "avx512vnni", "amx-tile", "sha"}),
              IsEmpty());
}

TEST(HostFeatures, NamesWhatIsMissing) {
  EXPECT_THAT(missing({"avx2", "avx512bf16", "amx-int8", "f16c", "bmi2"}),
              ElementsAre("avx512bf16", "amx-int8", "f16c", "bmi2"));
}

TEST(HostFeatures, KnowsVersionsThatLinuxDoesNotList) {
  std::vector<std::string> features = {"avx10.1", "avx10.2", "avx2"};
  EXPECT_THAT(missingFeatures(features, addAvx10(std::string(kCpuInfo), 1)),
              ElementsAre("avx10.2"));
  EXPECT_THAT(missingFeatures(features, addAvx10(std::string(kCpuInfo), 0)),
              ElementsAre("avx10.1", "avx10.2"));
}

TEST(HostFeatures, ReadsSigns) {
  EXPECT_THAT(missing({"+avx512fp16", "-avx512er", "+avx"}),
              ElementsAre("avx512fp16"));
}

TEST(HostFeatures, TuningDoesNotMatter) {
  EXPECT_THAT(missing({"fast-gather", "prefer-256-bit", "invpcid"}), IsEmpty());
}

TEST(HostFeatures, KnowsWhatCodeForArmNeeds) {
  std::vector<std::string> features = {"neon", "+sve", "sve2", "-sve2",
                                       "lse",  "bf16", "cssc"};
  EXPECT_THAT(missingFeatures(features, "processor\t: 0\nFeatures\t: fp asimd "
                                        "atomics sve\nCPU part\t: 0xd40\n"),
              ElementsAre("sve2", "bf16", "cssc"));
}

TEST(HostFeatures, OtherProcessorsAreNotJudged) {
  EXPECT_THAT(missingFeatures(std::vector<std::string>{"avx2"},
                              "processor\t: 0\nFeatures\t: fp asimd\n"),
              IsEmpty());
  EXPECT_THAT(missing({"neon", "sve"}), IsEmpty());
}

TEST(HostFeatures, ThisProcessorHasSse2OrIsAnother) {
  EXPECT_THAT(missingFeatures(std::vector<std::string>{"sse2"}, describeHost()),
              IsEmpty());
}

} // namespace
