//===- StepTimelineTest.cpp - What is computed and waited for ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/StepTimeline.h"
#include "optimus/Prices/ReuseDistances.h"

#include <gtest/gtest.h>

#include <array>

using namespace optimus_prices;

namespace {

TEST(StepTimeline, HidesWhatIsComputedBeside) {
  StepTimeline timeline;
  timeline.start(1, "row", CollectiveKind::AllGather, 5, "row");
  timeline.compute(3, "gemm");
  timeline.wait(1);
  timeline.compute(1, "launch");
  timeline.compute(2, "launch");
  const StepPrediction found = timeline.endCall();
  EXPECT_EQ(found.computeSeconds, 6);
  EXPECT_EQ(found.commSeconds, 5);
  EXPECT_EQ(found.exposedSeconds, 2);
  EXPECT_EQ(found.getSeconds(), 8);
  ASSERT_EQ(found.exposed.size(), 1u);
  EXPECT_EQ(found.exposed[0].axis, "row");
  EXPECT_EQ(found.exposed[0].count, 1);
  // Too short is what was computed; there was no queue.
  EXPECT_EQ(found.exposed[0].queuedSeconds, 0);
  EXPECT_EQ(found.exposed[0].idleSeconds, 0);
  // As long as the others; it came first.
  ASSERT_EQ(found.parts.size(), 2u);
  EXPECT_EQ(found.parts[0], (std::pair<std::string_view, double>("gemm", 3)));
}

TEST(StepTimeline, ALinkCarriesOneAfterTheOther) {
  for (bool isShared : {false, true}) {
    StepTimeline timeline;
    timeline.start(1, "row", CollectiveKind::AllReduce, 4, "row");
    timeline.start(2, "col", CollectiveKind::AllReduce, 3,
                   isShared ? "row" : "col");
    timeline.wait(2);
    timeline.wait(1);
    const StepPrediction found = timeline.endCall();
    EXPECT_EQ(found.exposedSeconds, isShared ? 7 : 4);
    // Nothing is computed between start and wait.
    const ExposedCollectives &longest = found.exposed.front();
    EXPECT_EQ(longest.axis, "col");
    EXPECT_EQ(longest.seconds, isShared ? 7 : 3);
    EXPECT_EQ(longest.queuedSeconds, isShared ? 4 : 0);
    EXPECT_EQ(longest.idleSeconds, 3);
  }
}

TEST(StepTimeline, ACallBeginsWithWhatIsCarried) {
  StepTimeline timeline;
  for (int call = 0; call != 3; ++call) {
    timeline.compute(1, "gemm");
    timeline.waitCarried(7);
    timeline.compute(2, "gemm");
    timeline.carry(7, "data", CollectiveKind::AllGather, 5, "data");
    const StepPrediction found = timeline.endCall();
    EXPECT_EQ(found.computeSeconds, 3);
    EXPECT_EQ(found.commSeconds, 5);
    // Nothing is under way when the first call begins.
    EXPECT_EQ(found.exposedSeconds, call == 0 ? 0 : 4);
    EXPECT_EQ(found.carried.count, 1);
    EXPECT_EQ(found.carried.seconds, 5);
    EXPECT_EQ(found.carried.afterSeconds, 5);
    EXPECT_EQ(found.carried.exposedSeconds, found.exposedSeconds);
  }
}

/// Touches a buffer as the next command: its reuse distance.
static double touch(ReuseDistances &distances, uint64_t buffer, double bytes) {
  std::array<Touch, 1> one{};
  one[0].buffer = buffer;
  one[0].bytes = bytes;
  distances.advance(one, [&](std::size_t) { return std::array{buffer}; });
  return one[0].reuseBytes;
}

TEST(ReuseDistances, CountWhatWasTouchedBetween) {
  ReuseDistances distances;
  EXPECT_EQ(touch(distances, 1, 4), std::numeric_limits<double>::infinity());
  EXPECT_EQ(touch(distances, 2, 8), std::numeric_limits<double>::infinity());
  EXPECT_EQ(touch(distances, 1, 4), 12);
  // Alone on its core it finds what it left.
  distances.wait();
  EXPECT_EQ(touch(distances, 1, 4), 4);
}

TEST(ReuseDistances, CountWhatOthersTouchInTheirTurns) {
  ReuseDistances distances(4);
  touch(distances, 1, 4);
  touch(distances, 2, 8);
  distances.wait();
  EXPECT_EQ(touch(distances, 1, 4), 8 + 3 * 12 + 4);
  // Between waits there are no others.
  EXPECT_EQ(touch(distances, 1, 4), 4);
  // Each has touched 8 since the last one.
  distances.wait();
  EXPECT_EQ(touch(distances, 2, 8), 8 + 3 * 8 + 3 * 12 + 8);
}

} // namespace
