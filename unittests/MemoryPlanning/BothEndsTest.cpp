//===- BothEndsTest.cpp - Long lives at the two ends of an arena ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanning/BothEnds.h"
#include "RandomRanges.h"

#include <gtest/gtest.h>

using namespace optimus_planning;

namespace {

/// A step of so many layers: each has a weight from the forward to the backward
/// and a gradient from there to the end; and at each time one buffer takes all
/// that they leave of `bytes`.
std::vector<LiveRange> stepOf(int64_t layers, int64_t bytes) {
  // All of them live for long.
  const int64_t loss = layers, end = 4 * layers;
  std::vector<LiveRange> ranges;
  std::vector<int64_t> left(end, bytes);
  auto add = [&](int64_t lower, int64_t upper, int64_t size) {
    ranges.push_back({int64_t(ranges.size()), lower, upper, size, 64});
    for (int64_t time = lower; time != upper; ++time)
      left[time] -= size;
  };
  for (int64_t layer = 0; layer != layers; ++layer) {
    const int64_t backward = loss + 2 * layers - layer;
    add(layer, backward, 128);
    add(backward, end, 192);
  }
  for (int64_t time = 0; time != end; ++time)
    add(time, time + 1, left[time]);
  return ranges;
}

Placement place(const std::vector<LiveRange> &ranges, int64_t capacity,
                int rounds) {
  const std::vector<Component> components = splitInTime(ranges);
  EXPECT_EQ(components.size(), 1u);
  Placement placed = placeFromBothEnds(ranges, components[0], capacity, rounds)
                         .value_or(Placement());
  Plan plan;
  plan.offsets.resize(ranges.size());
  for (size_t i = 0; i != placed.offsets.size(); ++i)
    plan.offsets[components[0].buffers[i].range] = placed.offsets[i];
  plan.arenaBytes = placed.arenaBytes;
  if (!placed.offsets.empty())
    EXPECT_EQ(validate(ranges, plan), std::nullopt);
  return placed;
}

} // namespace

TEST(BothEnds, LeavesWhatIsFreeInOnePiece) {
  constexpr int64_t kLayers = 500, kBytes = 2000 * 64;
  const std::vector<LiveRange> ranges = stepOf(kLayers, kBytes);
  EXPECT_EQ(place(ranges, kBytes, /*rounds=*/1).arenaBytes, kBytes);
  // In the order of their sizes gradients lie where weights were.
  Options quick;
  quick.nodeLimit = 0;
  quick.moveLimit = 0;
  quick.bytesPerNode = 1'000'000;
  EXPECT_GT(plan(ranges, quick).arenaBytes, kBytes);
}

// c finds no room above a and b, where it is tried after e, and comes first the
// next time.
//
//   time  0 1 2      time  0 1 2      time 1 is full: b, c and e take all of
//   it.
//         d d              e e e
//         e e e            d b b
//         a b              a c
TEST(BothEnds, TriesAgainWithWhatFoundNoRoomInFront) {
  std::vector<LiveRange> ranges = {{0, 0, 1, 5 * 64, 64},
                                   {1, 1, 2, 4 * 64, 64},
                                   {2, 1, 2, 3 * 64, 64},
                                   {3, 0, 1, 2 * 64, 64},
                                   {4, 0, 3, 3 * 64, 64}};
  // So that none of these is alive for long.
  for (int64_t id = 5; id != 305; ++id)
    ranges.push_back({id, id - 3, id - 1, 64, 64});
  EXPECT_TRUE(place(ranges, 10 * 64, /*rounds=*/1).offsets.empty());
  EXPECT_EQ(place(ranges, 10 * 64, /*rounds=*/2).arenaBytes, 10 * 64);
}

TEST(BothEnds, KeepsGapsAndLeavesFixedBuffersToOthers) {
  std::mt19937_64 random(13);
  for (int turn = 0; turn != 50; ++turn) {
    std::vector<LiveRange> ranges = randomRanges(random, 60, 40, 500, true);
    addGapsAndOffsets(random, ranges, 1000);
    for (LiveRange &range : ranges)
      range.fixedOffset.reset();
    ranges.push_back({60, 0, 40, 1, 1});
    EXPECT_FALSE(place(ranges, 100'000, /*rounds=*/1).offsets.empty());
    ranges[0].fixedOffset = 0;
    ranges[0].upper = ranges[0].lower + 1;
    ranges[0].size = 1;
    ranges[0].gaps.clear();
    EXPECT_TRUE(place(ranges, 100'000, /*rounds=*/1).offsets.empty());
  }
}
