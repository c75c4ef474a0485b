//===- PlannedMemory.h - What a rank is going to hold -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_PLANNEDMEMORY_H
#define OPTIMUS_RUNTIME_SESSION_PLANNEDMEMORY_H

#include "model/ProgramAgreement.h"
#include "optimus-runtime/Session.h"

#include <span>
#include <string>

namespace optrt {

/// Where a buffer counts.
int64_t RankMemory::*categoryOf(const Buffer &buffer);

/// What a rank holds in its device's memory: these buffers, as far as they are
/// there, and an arena.
RankMemory memoryOnDevice(const Manifest &manifest,
                          std::span<const int64_t> held,
                          std::span<const MemorySpace> spaces,
                          int64_t arenaBytes);

/// The memory of so many lanes by that of one, with an arena for each running
/// at once.
RankMemory ofLanes(RankMemory memory, int64_t lanes, int64_t atOnce);

/// "each of the 2 ranks of this process needs 12 GiB: parameters 1 GiB, arena
/// 11 GiB".
std::string describePlan(const RankMemory &memory, int ranks);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_PLANNEDMEMORY_H
