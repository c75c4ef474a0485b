//===- HostStagingTest.cpp - Collectives by way of the host ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "program/HostStaging.h"

#include <cstring>
#include <numeric>

using namespace optrt;
using testing::ElementsAre;

namespace {

class HostStagingTest : public FakeGpuTest {
protected:
  HostStagingTest() : staging(*device) {
    std::vector<float> numbers(16);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    source = upload(numbers);
    axis = device->queue("axis 0");
  }
  ~HostStagingTest() override { EXPECT_TRUE(device->synchronize().ok()); }

  /// Of 2 rows, 5 elements apart on the device.
  static optrt_collective_desc describe(int32_t kind, int64_t inner) {
    return {kind, OPTRT_SUM, 0, 0, 2, inner, 5, 5, OPTRT_F32};
  }
  static std::vector<float> floats(const char *at, size_t count) {
    std::vector<float> result(count);
    std::memcpy(result.data(), at, count * sizeof(float));
    return result;
  }

  HostStaging staging;
  DeviceMemory source;
  Queue axis;
};

TEST_F(HostStagingTest, RowsComeAndGoWithoutGaps) {
  optrt_collective_desc gather = describe(OPTRT_ALL_GATHER, 2);
  auto staged = staging.begin(axis, {1, 0}, gather, {2, false}, source.data(),
                              memory.data());
  ASSERT_TRUE(staged.ok()) << staged.status().message();
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ((*staged)->desc.src_ld, 2);
  EXPECT_EQ((*staged)->desc.dst_ld, 4);
  EXPECT_THAT(floats((*staged)->from, 4), ElementsAre(0, 1, 5, 6));
  const float all[] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy((*staged)->to, all, sizeof(all));
  ASSERT_TRUE(staging.finish(kCompute, {1, 0}).ok());
  EXPECT_THAT(read(memory.data(), 10),
              ElementsAre(1, 2, 3, 4, 0, 5, 6, 7, 8, 0));
}

TEST_F(HostStagingTest, ExchangesHaveABlockOfEachRankOnBothSides) {
  auto staged = staging.begin(axis, {1, 0}, describe(OPTRT_ALL_TO_ALL, 2),
                              {2, false}, source.data(), memory.data());
  ASSERT_TRUE(staged.ok()) << staged.status().message();
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ((*staged)->desc.src_ld, 4);
  EXPECT_EQ((*staged)->desc.dst_ld, 4);
  EXPECT_THAT(floats((*staged)->from, 8), ElementsAre(0, 1, 2, 3, 5, 6, 7, 8));
  std::memcpy((*staged)->to, (*staged)->from, 8 * sizeof(float));
  ASSERT_TRUE(staging.finish(kCompute, {1, 0}).ok());
  EXPECT_THAT(read(memory.data(), 10),
              ElementsAre(0, 1, 2, 3, 0, 5, 6, 7, 8, 0));
}

TEST_F(HostStagingTest, WhatIsInPlaceHasOneRoom) {
  auto staged = staging.begin(axis, {1, 0}, describe(OPTRT_ALL_REDUCE, 2),
                              {2, false}, memory.data(), memory.data());
  ASSERT_TRUE(staged.ok());
  EXPECT_EQ((*staged)->from, (*staged)->to);
  ASSERT_TRUE(device->await(kCompute, device->record(axis)).ok());
  ASSERT_TRUE(staging.finish(kCompute, {1, 0}).ok());
}

TEST_F(HostStagingTest, OnlyRootsReadWhatIsBroadcastAndWriteWhatIsReduced) {
  for (bool isRoot : {false, true}) {
    auto sent =
        staging.begin(axis, {1, 0}, describe(OPTRT_BROADCAST, 2), {2, isRoot},
                      isRoot ? source.data() : nullptr, memory.data());
    auto added =
        staging.begin(axis, {2, 0}, describe(OPTRT_REDUCE, 2), {2, isRoot},
                      source.data(), isRoot ? memory.data() : nullptr);
    ASSERT_TRUE(sent.ok() && added.ok());
    EXPECT_EQ((*sent)->from != nullptr, isRoot);
    EXPECT_NE((*sent)->to, nullptr);
    EXPECT_NE((*added)->from, nullptr);
    EXPECT_EQ((*added)->to != nullptr, isRoot);
    ASSERT_TRUE(device->await(kCompute, device->record(axis)).ok());
    for (uint32_t number : {1, 2})
      ASSERT_TRUE(staging.finish(kCompute, {number, 0}).ok());
  }
}

/// A second collective in the same room comes behind the first one's copies,
/// whatever the turns of queues.
TEST_F(HostStagingTest, RoomsAreUsedAgain) {
  optrt_collective_desc desc = describe(OPTRT_BROADCAST, 2);
  const char *room = nullptr;
  for (int i = 0; i != 20; ++i) {
    auto staged =
        staging.begin(axis, {1, 0}, desc, {2, false}, nullptr, memory.data());
    ASSERT_TRUE(staged.ok());
    EXPECT_TRUE(!room || room == (*staged)->to);
    room = (*staged)->to;
    const float value = float(i);
    ASSERT_TRUE(device
                    ->call(axis,
                           [&] {
                             std::memcpy((*staged)->to, &value, sizeof(value));
                             return okStatus();
                           })
                    .ok());
    ASSERT_TRUE(staging.finish(kCompute, {1, 0}).ok());
    if (i % 7 == 6) {
      EXPECT_EQ(read(memory.data(), 1)[0], value);
      staging.restart();
    }
  }
}

} // namespace
