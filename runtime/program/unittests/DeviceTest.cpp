//===- DeviceTest.cpp - Opens the device plugins --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Device.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

class DeviceTest : public testing::Test {
protected:
  void TearDown() override { unsetenv("OPTIMUS_DEVICE_CPU_LIBRARY"); }

  static void expectUnavailable(const char *library, const char *message) {
    setenv("OPTIMUS_DEVICE_CPU_LIBRARY", library, 1);
    auto factory = DeviceFactory::open("cpu");
    ASSERT_FALSE(factory.ok());
    EXPECT_EQ(factory.status().code(), StatusCode::Unavailable);
    EXPECT_THAT(factory.status().message(), HasSubstr(library));
    EXPECT_THAT(factory.status().message(), HasSubstr(message));
  }
};

TEST_F(DeviceTest, TheProcessorsComputes) {
  auto factory = DeviceFactory::open("cpu");
  ASSERT_TRUE(factory.ok()) << factory.status().message();
  auto device = factory->create(1);
  ASSERT_TRUE(device.ok()) << device.status().message();
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[4];
  optrt_gemm_desc desc{};
  desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 2;
  ASSERT_TRUE((*device)->gemm(kCompute, desc, a, b, c, nullptr, nullptr).ok());
  EXPECT_THAT(c, testing::ElementsAre(19, 22, 43, 50));
}

TEST_F(DeviceTest, AnUnknownNameIsTheUsersFault) {
  auto factory = DeviceFactory::open("abacus");
  ASSERT_FALSE(factory.ok());
  EXPECT_EQ(factory.status().code(), StatusCode::InvalidArgument);
  EXPECT_THAT(factory.status().message(), HasSubstr("abacus"));
}

TEST_F(DeviceTest, AMissingPluginIsNamed) {
  expectUnavailable("/nowhere/device.so", "oneDNN");
}

TEST_F(DeviceTest, ALibraryThatIsNoPluginIsNamed) {
  expectUnavailable(OPTIMUS_TOY, "no symbol optimus_device_create");
}

TEST_F(DeviceTest, APluginOfAnotherBuildIsRefused) {
  expectUnavailable(OPTIMUS_PLUGINS "/plugin-of-another-build.so",
                    "found stamp-of-another; build both again");
}

TEST_F(DeviceTest, APluginOfBeforeStampsIsRefused) {
  expectUnavailable(OPTIMUS_PLUGINS "/plugin-without-stamp.so",
                    "found none; build both again");
}

// Only where the user has not chosen; libgomp reads it when it is loaded.
TEST_F(DeviceTest, ThreadsSpinBrieflyUnlessToldOtherwise) {
  setenv("OPTIMUS_DEVICE_CPU_LIBRARY", "/nowhere/device.so", 1);
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_FALSE(DeviceFactory::open("cpu").ok());
  // For 20 microseconds, of pauses from 1 to 156 ns.
  const int turns = std::atoi(getenv("GOMP_SPINCOUNT"));
  EXPECT_GE(turns, 128);
  EXPECT_LE(turns, 20000);

  setenv("GOMP_SPINCOUNT", "5", 1);
  EXPECT_FALSE(DeviceFactory::open("cpu").ok());
  EXPECT_STREQ(getenv("GOMP_SPINCOUNT"), "5");

  unsetenv("GOMP_SPINCOUNT");
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_FALSE(DeviceFactory::open("cpu").ok());
  EXPECT_EQ(getenv("GOMP_SPINCOUNT"), nullptr);
}

} // namespace
