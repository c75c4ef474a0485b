//===- CommunicatorScratchTest.cpp - What communicators keep --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/CommunicatorScratch.h"

#include "RecordingDevice.h"
#include "optimus-testing/ProgramWriter.h"

#include <gtest/gtest.h>

using namespace optrt;
using namespace optimus_support::program;
namespace program = optimus_support::program;

namespace {

/// Keeps a copy of what it moves in one kind of buffer, and 8 bytes in another
/// for a broadcast.
class Copying final : public Communicator {
public:
  int size() const override { return 2; }
  int index() const override { return 0; }
  Status start(CommandId, const optrt_collective_desc &, const void *,
               void *) override {
    return okStatus();
  }
  Status wait(CommandId) override { return okStatus(); }
  void overlap() override {}
  Clock::time_point completionOfLastWait() const override { return {}; }
  std::vector<int64_t>
  bufferBytes(const optrt_collective_desc &desc) const override {
    return {4 * desc.outer * desc.inner, desc.kind == OPTRT_BROADCAST ? 8 : 0};
  }
};

class CommunicatorScratchTest : public testing::Test {
protected:
  uint32_t start(CollectiveKind kind, uint32_t axis, int64_t offset,
                 int64_t elements) {
    View data = f.at(arena, offset, elements);
    return f.collective(kind, {axis}, data, data);
  }
  int64_t bytes() {
    const ProgramsT all = programs.finish();
    EXPECT_TRUE(check(all).ok()) << check(all).message();
    RecordingDevice device;
    float memory[64] = {};
    char *const arenas[] = {reinterpret_cast<char *>(memory)};
    auto bound = BoundProgram::bind(*all.targets.front(), {}, "f", mesh, 0,
                                    device, arenas, {});
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    Copying row, col;
    const std::vector<Communicator *> communicators = {&row, &col};
    CommunicatorScratch buffers(communicators);
    buffers.add(*bound);
    // A second program like it needs no more.
    buffers.add(*bound);
    return buffers.bytes();
  }

  const Mesh mesh{{{"row", 2}, {"col", 2}}};
  ProgramWriter programs{mesh};
  FunctionWriter f = programs.function("f");
  View arena = f.arena(program::ElementType::F32, 64);
};

TEST_F(CommunicatorScratchTest, FollowersShareAPlaceKindByKind) {
  f.wait(start(CollectiveKind::AllReduce, 0, 0, 16));
  f.wait(start(CollectiveKind::Broadcast, 0, 0, 4));
  EXPECT_EQ(bytes(), 4 * 16 + 8);
}

TEST_F(CommunicatorScratchTest, NeighboursHavePlacesOfTheirOwn) {
  uint32_t first = start(CollectiveKind::AllReduce, 0, 0, 16);
  uint32_t second = start(CollectiveKind::AllReduce, 0, 16, 4);
  f.wait(first);
  // It takes the place of the first.
  uint32_t third = start(CollectiveKind::AllReduce, 0, 32, 8);
  f.wait(second);
  f.wait(third);
  EXPECT_EQ(bytes(), 4 * (16 + 4));
}

TEST_F(CommunicatorScratchTest, WhatFollowsTakesTheFirstPlace) {
  uint32_t first = start(CollectiveKind::AllReduce, 0, 0, 2);
  uint32_t second = start(CollectiveKind::AllReduce, 0, 16, 1);
  f.wait(first);
  f.wait(second);
  f.wait(start(CollectiveKind::AllReduce, 0, 0, 16));
  f.wait(start(CollectiveKind::AllReduce, 0, 0, 8));
  EXPECT_EQ(bytes(), 4 * (16 + 1));
}

TEST_F(CommunicatorScratchTest, AxesHavePlacesOfTheirOwn) {
  f.wait(start(CollectiveKind::AllReduce, 0, 0, 16));
  f.wait(start(CollectiveKind::AllReduce, 1, 0, 16));
  EXPECT_EQ(bytes(), 2 * 4 * 16);
}

} // namespace
