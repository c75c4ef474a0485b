//===- CollectiveCosts.h - What collectives take ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_COLLECTIVECOSTS_H
#define OPTIMUS_RUNTIME_MEASURE_COLLECTIVECOSTS_H

#include "measure/CollectiveMover.h"
#include "optimus-runtime/RankTeam.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace optrt {

/// The kinds that are timed.
inline constexpr int32_t kTimedCollectives[] = {
    OPTRT_BROADCAST, OPTRT_REDUCE, OPTRT_ALL_REDUCE, OPTRT_ALL_GATHER,
    OPTRT_REDUCE_SCATTER};

/// One size of one of them.
struct CollectivePoint {
  int32_t kind = 0;
  int64_t count = 0;  ///< elements of the whole tensor, f32
  double seconds = 0; ///< of the slowest rank, the median of many
  /// Of all processes together, the mean of as many: what cores spend on it.
  double processorSeconds = 0;
  int64_t wrong = 0;  ///< elements, over all ranks
};

/// Every collective for whole tensors of minBytes, 4 · minBytes, ... up to
/// maxBytes, among all ranks of `world`, which is laid out; `team` has a thread
/// for each rank of this process. Collective; the points are the same on all.
///
/// Errors: those of the collectives and of GPUs, not agreed.
StatusOr<std::vector<CollectivePoint>>
measureCollectives(World &world, const Movers &movers, RankTeam &team,
                   int64_t minBytes, int64_t maxBytes, double timeoutSeconds);

/// On how many machines the ranks of a job are. Ranks with one machine share
/// its cores, whatever hosts they take themselves to be on. Collective.
int64_t countMachines(ControlPlane &control);

/// The entries of section "comm" of a machine profile.
nlohmann::ordered_json machineEntries(std::span<const CollectivePoint> measured,
                                      std::string_view backend, int64_t ranks,
                                      int64_t machines);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_COLLECTIVECOSTS_H
