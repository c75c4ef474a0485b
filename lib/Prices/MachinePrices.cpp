//===- MachinePrices.cpp - What a machine takes for a program ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/MachinePrices.h"

#include <algorithm>
#include <cmath>

namespace optimus_prices {

/// How many threads each core of the machine has while `ranks` compute.
static double getShare(const ComputeProfile &entry, int64_t ranks) {
  return entry.cores > 0 ? double(ranks * entry.threads) / entry.cores : 1.0;
}

/// The entry for the work of so many ranks on one machine: they get as many
/// threads as were measured and there are cores for, beside as many others as
/// come nearest.
static ComputeProfile chooseProfile(std::span<const ComputeProfile> entries,
                                    int64_t ranks) {
  if (entries.empty())
    return ComputeProfile();
  auto isBetter = [&](const ComputeProfile &a, const ComputeProfile &b) {
    double shareOfA = getShare(a, ranks), shareOfB = getShare(b, ranks);
    if (a.threads != b.threads)
      return shareOfA <= 1 ? shareOfB > 1 || a.threads > b.threads
                           : shareOfA < shareOfB;
    // Those that compute at the same time; the others wait for a core.
    auto getOctaves = [&](const ComputeProfile &entry) {
      double busy =
          entry.cores > 0
              ? std::min<double>(ranks, double(entry.cores) / entry.threads)
              : double(ranks);
      return std::abs(std::log2(busy) - std::log2(double(entry.ranks)));
    };
    return getOctaves(a) < getOctaves(b);
  };
  const ComputeProfile *best = &entries.front();
  for (const ComputeProfile &entry : entries.subspan(1))
    if (isBetter(entry, *best))
      best = &entry;
  return *best;
}

/// The measurements of one thread beside as many others; nothing where they are
/// the chosen ones, or not there.
static std::shared_ptr<const ComputePrices>
findOneThread(std::span<const ComputeProfile> entries,
              const ComputeProfile &chosen) {
  for (const ComputeProfile &entry : entries)
    if (chosen.threads > 1 && entry.threads == 1 && entry.ranks == chosen.ranks)
      return std::make_shared<ComputePrices>(entry, /*isGpu=*/false);
  return nullptr;
}

/// How many ranks are on a machine: all that are threads, and as many as there
/// were when collectives among the nearest number of ranks were measured.
static int64_t getNeighbours(const MachineProfile &profile, int64_t numRanks) {
  if (profile.backend == "local")
    return numRanks;
  const CollectiveProfile *nearest = nullptr;
  auto getOctaves = [&](const CollectiveProfile &entry) {
    return std::abs(std::log2(double(entry.ranks)) -
                    std::log2(double(numRanks)));
  };
  for (const CollectiveProfile &entry : profile.collectives)
    if (entry.backend == profile.backend && entry.machines > 0 &&
        (!nearest || getOctaves(entry) < getOctaves(*nearest)))
      nearest = &entry;
  if (!nearest)
    return 1;
  return nearest->machines == 1
             ? numRanks
             : std::clamp<int64_t>(nearest->ranks / nearest->machines, 1,
                                   numRanks);
}

/// Products that were not measured one by one have the rate of those of a run.
static ComputeProfile learnRate(ComputeProfile compute, double rate) {
  if (rate > 0 && compute.points.empty())
    compute.flopsPerSecond = rate;
  return compute;
}

static ComputePrices chooseCompute(const MachineProfile &profile, int64_t ranks,
                                   double flopsOfRun) {
  ComputeProfile chosen =
      learnRate(chooseProfile(profile.computes, ranks), flopsOfRun);
  auto ofOneThread =
      profile.gpu ? nullptr : findOneThread(profile.computes, chosen);
  return ComputePrices(std::move(chosen), profile.gpu.has_value(),
                       std::move(ofOneThread));
}

MachinePrices::MachinePrices(const MachineProfile &profile, int64_t numRanks,
                             double flopsOfRun)
    : communication(profile),
      compute(chooseCompute(profile, getNeighbours(profile, numRanks),
                            flopsOfRun)) {
  const ComputeProfile &chosen = compute.getProfile();
  int64_t ranks = getNeighbours(profile, numRanks);
  // If more were measured than there are cores for, they shared them then.
  sharedWhenMeasured =
      std::max(1.0, getShare(chosen, std::min(ranks, chosen.ranks)));
  threadsOfCore = getShare(chosen, ranks);
  slowdown = std::max(1.0, threadsOfCore) / sharedWhenMeasured;
  const bool hasProcessors = std::any_of(
      profile.collectives.begin(), profile.collectives.end(),
      [&](const CollectiveProfile &entry) {
        return entry.backend == profile.backend && !entry.processors.empty();
      });
  if (!profile.gpu && chosen.cores > 0 && numRanks > 1 &&
      (getShare(chosen, ranks) > 1 || hasProcessors))
    shared = {.cores = chosen.cores,
              .threads = chosen.threads,
              .ranksPerMachine = ranks};
}

double MachinePrices::getFarSeconds(RankGroup group,
                                    std::span<const Touch> touches) const {
  double bytes = 0;
  for (const Touch &one : touches)
    bytes += one.bytes;
  const double ranksOfCore =
      std::max(1.0, getShare(compute.getProfile(), group.ranks));
  return compute.getFarSeconds(touches, ranksOfCore * bytes) /
         sharedWhenMeasured;
}

} // namespace optimus_prices
