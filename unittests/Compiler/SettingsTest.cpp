//===- SettingsTest.cpp - What a compilation is asked for -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Compiler/Settings.h"

#include "gtest/gtest.h"

using namespace mlir::optimus;

TEST(CompileSettings, TakesFlagsByName) {
  CompileSettings settings;
  EXPECT_FALSE(settings.isGiven("mesh"));
  ASSERT_TRUE(settings.set("mesh", "row:2,col:2").ok());
  ASSERT_TRUE(settings.set("o", "model.so").ok());
  ASSERT_TRUE(settings.set("layout", "h.*=row,col").ok());
  ASSERT_TRUE(settings.set("tune-products", "false").ok());
  for (const char *profile : {"a;b.json", "c.json"})
    ASSERT_TRUE(settings.set("also-price", profile).ok());
  EXPECT_EQ(settings.phases.mesh, "row:2,col:2");
  EXPECT_EQ(settings.output, "model.so");
  EXPECT_EQ(settings.phases.layouts, "h.*=row,col");
  EXPECT_EQ(settings.phases.tuneProducts, false);
  EXPECT_EQ(settings.alsoPriced,
            std::vector<std::string>({"a;b.json", "c.json"}));
  for (const char *name :
       {"mesh", "o", "layout", "tune-products", "also-price"})
    EXPECT_TRUE(settings.isGiven(name)) << name;
}

TEST(CompileSettings, KnowsADenialFromSilence) {
  CompileSettings settings;
  EXPECT_FALSE(settings.isGiven("accumulate"));
  ASSERT_TRUE(settings.set("accumulate", "false").ok());
  EXPECT_FALSE(settings.phases.accumulate);
  EXPECT_TRUE(settings.isGiven("accumulate"));
  ASSERT_TRUE(settings.set("accumulate", "true").ok());
  EXPECT_TRUE(settings.phases.accumulate);
  EXPECT_TRUE(settings.denied.empty());
}

TEST(CompileSettings, RefusesWhatIsNoFlagOrNoValue) {
  CompileSettings settings;
  EXPECT_EQ(settings.set("mehs", "row:1,col:1").message(),
            "expected a flag of optimus-compile, found 'mehs'; did you mean "
            "'mesh'?");
  EXPECT_EQ(settings.set("accumulate", "maybe").message(),
            "--accumulate: expected true or false, found 'maybe'");
  EXPECT_EQ(settings.set("strategy", "").message(),
            "--strategy: expected a value, found nothing");
}

TEST(CompileSettings, KnowsWhatGoesToStandardOutput) {
  CompileSettings settings;
  EXPECT_FALSE(settings.takesStandardOutput());
  settings.reportJson = "-";
  EXPECT_TRUE(settings.takesStandardOutput());
  settings.reportJson = "report.json";
  settings.compileTo = "shard";
  EXPECT_TRUE(settings.takesStandardOutput());
  settings.output = "shard.mlir";
  EXPECT_FALSE(settings.takesStandardOutput());
}
