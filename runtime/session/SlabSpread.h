//===- SlabSpread.h - Slabs that all processes take from --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SLABSPREAD_H
#define OPTIMUS_RUNTIME_SESSION_SLABSPREAD_H

#include "PieceShares.h"
#include "SlabSignals.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace optrt {

/// Hands out the pieces that processes read, slab by slab: SlabFlow's way back.
/// A process reads a slab into its region of shared memory, and those of its
/// machine copy from there what their ranks have of it; others get messages.
///
///   process 0   reads its slabs 0 and 1, and may read slab 2 once all others
///               have copied slab 0: meanwhile it copies theirs
class SlabSpread {
public:
  /// The regions that it needs, one a process.
  static std::vector<std::size_t> regionBytes(std::span<const PieceList> lists);

  /// All must outlive it, and are alike in every process; `regions` are new,
  /// and at least of these sizes. `serves` as ShardExchange::distribute().
  SlabSpread(ShardExchange &exchange, const PieceSlabs &slabs,
             const std::vector<PieceList> &lists, SharedRegions &regions,
             ShardExchange::Serves serves);

  /// Reads the slabs of this process's pieces, in order. What it cannot read is
  /// handed out as it is, as others wait for it.
  using Read =
      std::function<void(std::size_t piece, bool isFirst, std::span<float>)>;
  /// Sets what all ranks have of all slabs. Collective.
  ///
  /// Errors: Unavailable when a process of the machine has ended, and those of
  /// ShardExchange::distribute().
  Status run(const Read &read);

private:
  /// Whether another process copies slabs of this one, and this one its.
  bool isPartner(int other) const {
    return other != here && serves(here, other) && signals.areShared(other);
  }
  /// Whether all others have copied what was where the next slab is to lie.
  bool hasRoom();
  /// Copies this round's slab of another process, if it is there.
  bool copyFrom(int other, Status &failure);
  Status waitFor(const std::function<bool()> &isReady);

  ShardExchange &exchange;
  SharedRegions &regions;
  const ShardExchange::Serves serves;
  const int processes, here;
  /// A process is done with slabs that it has read, another one with those it
  /// has copied.
  SlabSignals signals;
  SlabRounds rounds;
  uint64_t round = 0;
  /// Whether some process serves another one by messages.
  bool sendsMessages = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SLABSPREAD_H
