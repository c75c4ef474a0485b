//===- PlannedMemoryTest.cpp - What a rank is going to hold ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/PlannedMemory.h"

#include "optimus-runtime/Device.h"

#include <gtest/gtest.h>

using namespace optrt;

namespace {

TEST(PlannedMemory, IsWhatLiesInTheDevicesMemory) {
  Manifest manifest;
  auto add = [&](Lifetime lifetime, int64_t elements, int64_t of = -1) {
    Buffer &buffer = manifest.buffers.emplace_back();
    buffer.type = ElementType::F32;
    buffer.layout = {{elements}, {elements}, {{}}};
    buffer.lifetime = lifetime;
    buffer.of = of;
  };
  add(Lifetime::Parameter, 1000);
  add(Lifetime::State, 2000, 0);
  add(Lifetime::State, 3000, 0); // which rests on the host
  add(Lifetime::Sequence, 1000, 0);
  add(Lifetime::Call, 1);
  add(Lifetime::Parameter, 5000); // which nothing uses
  manifest.buffers[3].reset = Reset::Step;
  const int64_t held[] = {0, 1, 2, 3, 4};
  std::vector<MemorySpace> spaces(6, MemorySpace::Device);
  spaces[2] = MemorySpace::Host;
  RankMemory memory = memoryOnDevice(manifest, held, spaces, 65536);
  EXPECT_EQ(memory.parameters, alignedSize(4000));
  EXPECT_EQ(memory.state, alignedSize(8000));
  EXPECT_EQ(memory.gradients, alignedSize(4000));
  EXPECT_EQ(memory.inputs, alignedSize(4));
  EXPECT_EQ(describePlan(memory, /*ranks=*/1),
            "a rank needs 79.8 KiB: parameters 4032 B, state 8000 B, "
            "gradients 4032 B, inputs 64 B, arena 64 KiB");
  memory.gradients = 0;
  EXPECT_EQ(describePlan(memory, /*ranks=*/2),
            "each of the 2 ranks of this process needs 75.8 KiB: parameters "
            "4032 B, state 8000 B, inputs 64 B, arena 64 KiB");
}

} // namespace
