//===- SlabSignals.h - What processes say of their slabs --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SLABSIGNALS_H
#define OPTIMUS_RUNTIME_SESSION_SLABSIGNALS_H

#include "ShardExchange.h"
#include "SharedRegions.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace optrt {

/// Counts at the begin of every process's region of shared memory, and bells
/// for those who wait for them. The rest of a region is for slabs.
class SlabSignals {
public:
  /// As many slabs as a process may be ahead of one that takes them.
  static constexpr std::size_t kDepth = 2;
  /// At the begin of a region, in whole pages.
  static std::size_t bytes(std::size_t processes);

  /// The regions outlive it, are at least as large, and new: counts begin at
  /// zero.
  SlabSignals(SharedRegions &regions, int processes, int here)
      : regions(regions), processes(processes), here(here) {}

  /// How many of its slabs a process is done with: its own number.
  std::atomic<uint64_t> &done(int process) { return header(process).done; }
  /// How many of its slabs another one is done with: the other's number.
  std::atomic<uint64_t> &doneBy(int process, int other);
  /// What follows in a process's region.
  std::span<float> elements(int process) const;
  /// Where its slabs lie that take turns, by their numbers.
  std::span<float> slab(int process, uint64_t number, std::size_t count) const {
    return elements(process).subspan(
        number % kDepth * std::size_t(kSlabElements), count);
  }
  bool areShared(int other) const { return regions.areShared(here, other); }

  /// Wakes a process that may have waited for a number.
  void ring(int process);
  void ringAll();
  /// Who waits says so first, and looks once more: what rings from now on ends
  /// the sleep.
  uint32_t awaitRing();
  /// Sleeps until the bell is no longer as it was. Unavailable when a process
  /// has ended that has not left.
  Status sleep(uint32_t bell);
  /// A process enters before its first number and leaves after its last. Then
  /// nobody waits for it, and its regions may go.
  void enter() { header(here).hasLeft.store(0); }
  void leave();

private:
  /// Zeros at first. Each is written by one process, but for the bell.
  struct alignas(64) Header {
    std::atomic<uint32_t> bell; ///< rung when the owner may have waited for it
    std::atomic<uint32_t> sleeps; ///< whether somebody has to wake it
    alignas(64) std::atomic<uint64_t> done;
    std::atomic<uint32_t> hasLeft;
  };
  /// After it, one a process.
  struct alignas(64) DoneBy {
    std::atomic<uint64_t> count;
  };
  Header &header(int process);

  SharedRegions &regions;
  const int processes, here;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SLABSIGNALS_H
