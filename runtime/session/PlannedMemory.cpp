//===- PlannedMemory.cpp - What a rank is going to hold -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedMemory.h"

#include "optimus-runtime/Device.h"
#include "optimus-support/FormatBytes.h"
#include "optimus-support/MemoryCategory.h"

namespace optrt {

int64_t RankMemory::*categoryOf(const Buffer &buffer) {
  constexpr int64_t RankMemory::*members[] = {
      &RankMemory::parameters, &RankMemory::state, &RankMemory::gradients,
      &RankMemory::inputs};
  return entryOf(optimus_support::memoryCategory(
                     buffer.lifetime, buffer.of >= 0, buffer.isPrepared()),
                 members);
}

RankMemory memoryOnDevice(const Manifest &manifest,
                          std::span<const int64_t> held,
                          std::span<const MemorySpace> spaces,
                          int64_t arenaBytes) {
  RankMemory memory;
  for (int64_t index : held)
    if (spaces[index] == MemorySpace::Device) {
      const Buffer &buffer = manifest.buffers[index];
      memory.*categoryOf(buffer) += alignedSize(buffer.numBytes());
    }
  memory.arena = alignedSize(arenaBytes);
  return memory;
}

RankMemory ofLanes(RankMemory memory, int64_t lanes, int64_t atOnce) {
  for (auto part : {&RankMemory::parameters, &RankMemory::state,
                    &RankMemory::gradients, &RankMemory::inputs})
    memory.*part *= lanes;
  memory.arena *= atOnce;
  return memory;
}

std::string describePlan(const RankMemory &memory, int ranks) {
  using optimus_support::formatBytes;
  std::string text =
      ranks == 1 ? "a rank"
                 : concat("each of the ", ranks, " ranks of this process");
  text += concat(" needs ", formatBytes(memory.total()));
  const char *separator = ": ";
  struct Part {
    const char *name;
    int64_t bytes;
  };
  for (auto [name, bytes] :
       {Part{"parameters", memory.parameters}, Part{"state", memory.state},
        Part{"gradients", memory.gradients}, Part{"inputs", memory.inputs},
        Part{"arena", memory.arena}}) {
    if (bytes == 0)
      continue;
    text += concat(separator, name, " ", formatBytes(bytes));
    separator = ", ";
  }
  return text;
}

} // namespace optrt
