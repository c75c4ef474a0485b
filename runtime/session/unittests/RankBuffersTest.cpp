//===- RankBuffersTest.cpp - The memory of one rank -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/RankBuffers.h"

#include "optimus-runtime/Device.h"
#include "optimus-support/Philox.h"
#include "program/unittests/RecordingDevice.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace optrt;
using optimus_support::Initializer;
using optimus_support::InitKind;

/// Buffers as a model that decodes has them, on a mesh of two ranks.
class RankBuffersTest : public testing::Test {
protected:
  enum { kCache, kPosition, kTokens, kScale, kLogits };

  void SetUp() override {
    manifest.mesh = Mesh({{"row", 2}});
    auto add = [&](ElementType type, ShardLayout layout) -> Buffer & {
      Buffer &buffer = manifest.buffers.emplace_back();
      buffer.type = type;
      buffer.layout = std::move(layout);
      return buffer;
    };
    add(ElementType::BF16, {{4, 3}, {4, 2}, {{}, {0}}}).init = Initializer();
    add(ElementType::I32, {{2}, {2}, {{}}});
    add(ElementType::I32, {{4, 3}, {4, 2}, {{}, {0}}});
    add(ElementType::F32, {{}, {}, {}});
    add(ElementType::F32, {{3}, {2}, {{0}}}).init =
        Initializer{InitKind::Constant, 0.5, 0};
    auto devices = DeviceFactory::open("cpu");
    ASSERT_TRUE(devices.ok());
    auto opened = devices->create(/*threads=*/1);
    ASSERT_TRUE(opened.ok());
    device = std::move(opened).value();
    auto made = RankBuffers::create(manifest, /*rank=*/1, held, *device);
    ASSERT_TRUE(made.ok());
    buffers = std::move(made).value();
  }

  float elementOf(int64_t buffer, int64_t element) {
    std::vector<float> copy;
    return *buffers.read(buffer, element, /*count=*/1, copy).value();
  }

  Manifest manifest;
  std::vector<int64_t> held = {kCache, kPosition, kTokens, kScale, kLogits};
  std::unique_ptr<Device> device;
  RankBuffers buffers;
};

TEST_F(RankBuffersTest, SetsInitialValuesOfAnyType) {
  std::memset(buffers.argument(kCache), 0xFF, 4 * 2 * 2);
  ASSERT_TRUE(buffers.initialize(kCache, /*seed=*/1).ok());
  const char *bytes = static_cast<const char *>(buffers.argument(kCache));
  EXPECT_EQ(std::count(bytes, bytes + 4 * 2 * 2, 0), 4 * 2 * 2);
  // The last rank's second element is padding.
  ASSERT_TRUE(buffers.initialize(kLogits, /*seed=*/1).ok());
  EXPECT_EQ(elementOf(kLogits, 0), 0.5f);
  EXPECT_EQ(elementOf(kLogits, 1), 0.0f);
}

// In a file, where host code reaches a piece of a buffer at a time.
TEST_F(RankBuffersTest, SetsAndReadsWhatLiesElsewhereInPieces) {
  const int64_t columns = 3 * kPiece / 2 + 5;
  manifest.buffers.clear();
  Buffer &buffer = manifest.buffers.emplace_back();
  buffer.type = ElementType::F32;
  buffer.layout = {{4, columns}, {2, columns}, {{0}, {}}};
  buffer.init = Initializer{InitKind::Normal, 0.5, 3};
  const MemorySpace space = MemorySpace::File;
  const int64_t only = 0;
  auto made = RankBuffers::create(manifest, /*rank=*/1, {&only, 1}, *device,
                                  {&space, 1}, testing::TempDir());
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(device->hostAddress(made->argument(0)), nullptr);
  ASSERT_TRUE(made->initialize(0, /*seed=*/7).ok());

  std::vector<float> expected(2 * columns);
  optimus_support::fillNormal(7, 3, 2 * columns, 2 * columns, 0.5,
                              expected.data());
  std::vector<float> copy;
  auto expectElements = [&] {
    for (int64_t begin = 0, count = 0; begin < 2 * columns; begin += count) {
      count = std::min(kPiece / 3 + 1, 2 * columns - begin);
      auto found = made->read(0, begin, count, copy);
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_TRUE(std::equal(*found, *found + count, expected.data() + begin));
      ASSERT_LE(copy.size(), kPiece);
    }
  };
  expectElements();
  // What is set replaces all between it, and nothing beside it.
  ASSERT_TRUE(made->write(0, columns, 3, [](float *to) { to[1] = 9; }).ok());
  std::fill_n(expected.data() + columns, 3, 0.0f);
  expected[columns + 1] = 9;
  expectElements();
  ASSERT_TRUE(made->clear(0).ok());
  std::ranges::fill(expected, 0.0f);
  expectElements();
}

TEST_F(RankBuffersTest, TakesNumbersWordsAndRows) {
  ASSERT_TRUE(buffers.setNumber(kScale, 2.5f).ok());
  EXPECT_EQ(buffers.number(kScale).value(), 2.5f);
  const int32_t position[] = {7, 9};
  ASSERT_TRUE(buffers.setWords(kPosition, position).ok());
  EXPECT_EQ(static_cast<int32_t *>(buffers.argument(kPosition))[1], 9);
  const int32_t rows[] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
  const BatchRows to(manifest, kTokens, /*rank=*/1);
  ASSERT_TRUE(buffers.setRows(to, rows, /*padding=*/-1).ok());
  const int32_t expected[] = {2, -1, 12, -1, 22, -1, 32, -1};
  EXPECT_EQ(std::memcmp(buffers.argument(kTokens), expected, sizeof(expected)),
            0);
}

TEST_F(RankBuffersTest, ACopyThatFailsIsOfABuffer) {
  RecordingDevice hidden;
  hidden.isHidden = true;
  manifest.buffers[kScale].name = "lr";
  auto made = RankBuffers::create(manifest, /*rank=*/1, held, hidden);
  ASSERT_TRUE(made.ok());
  hidden.failsAt = "write";
  EXPECT_EQ(made->setNumber(kScale, 1).message(),
            "rank 1, the buffer \"lr\": broken");
  hidden.failsAt = "read";
  EXPECT_EQ(made->number(kScale).status().message(),
            "rank 1, the buffer \"lr\": broken");
}

TEST_F(RankBuffersTest, HoldsNothingElse) {
  held = {kScale};
  auto made = RankBuffers::create(manifest, /*rank=*/0, held, *device);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->argument(kCache), nullptr);
  EXPECT_NE(made->argument(kScale), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(made->argument(kScale)) %
                kBufferAlignment,
            0u);
}
