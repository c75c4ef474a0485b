//===- Memory.cpp - What a rank holds ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include "optimus-support/MemoryCategory.h"
#include "optimus-support/ProgramScratch.h"

#include <algorithm>
#include <set>

using namespace optimus_simulate;
using namespace optimus_support::program;
using optrt::ModelLibrary;

namespace {
/// Numbers of RankMemory's parts.
enum Part {
  InParameters,
  InState,
  InGradients,
  InInputs,
  InArena,
  InScratch,
  Pinned,
  InFile
};
constexpr const char *kNames[] = {"parameters", "state", "gradients",
                                  "inputs",     "arena", "scratch",
                                  "pinned",     "file"};
/// Of these, those in the device's memory.
constexpr size_t kNumOfDevice = Pinned;
} // namespace

/// Buffers lie one behind the other.
static int64_t align(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static Part partOf(const ModelLibrary &library, MemorySpace space,
                   Part inside) {
  if (space == MemorySpace::File)
    return InFile;
  const bool isForGpu = library.target().name == "cuda";
  return isForGpu && space == MemorySpace::Host ? Pinned : inside;
}

static Part partOf(const ModelLibrary &library, const ArgumentT &argument) {
  constexpr Part kParts[] = {InParameters, InState, InGradients, InInputs};
  const auto number = library.manifest().findBuffer(argument.buffer);
  if (!number)
    return InInputs;
  const optrt::Buffer &buffer = library.manifest().buffers[*number];
  return optimus_support::entryOf(
      optimus_support::memoryCategory(buffer.lifetime, buffer.of >= 0,
                                      buffer.isPrepared()),
      kParts);
}

RankMemory::RankMemory(const ModelLibrary &library,
                       const optimus_simulation::CallList &calls,
                       int64_t rank) {
  for (const char *name : kNames)
    parts.push_back({name, 0});
  std::set<std::string> seen;
  const std::set<std::string> called(calls.begin(), calls.end());
  for (const auto &function : tableOf(library.target(), rank).functions) {
    if (!called.contains(function->name))
      continue;
    for (const auto &argument : function->arguments)
      if (seen.insert(argument->buffer).second)
        parts[partOf(library, argument->space, partOf(library, *argument))]
            .second += align(argument->bytes);
    int64_t arenas[std::size(kNames)] = {};
    for (const auto &arena : function->arenas)
      arenas[partOf(library, arena->space, InArena)] += arena->bytes;
    parts[InArena].second = std::max(parts[InArena].second, arenas[InArena]);
    // Beside the arguments that lie there.
    for (Part outside : {Pinned, InFile})
      parts[outside].second += arenas[outside];
    parts[InScratch].second =
        std::max(parts[InScratch].second,
                 scratchOf(library.target(), *function).bytes(1));
  }
  while (parts.size() > kNumOfDevice && parts.back().second == 0)
    parts.pop_back();
}

int64_t RankMemory::getTotal() const {
  int64_t total = 0;
  for (size_t part = 0; part != kNumOfDevice; ++part)
    total += parts[part].second;
  return total;
}
