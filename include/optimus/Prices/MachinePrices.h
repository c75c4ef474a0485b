//===- MachinePrices.h - What a machine takes for a program -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_MACHINEPRICES_H
#define OPTIMUS_PRICES_MACHINEPRICES_H

#include "optimus/Prices/CollectivePrices.h"
#include "optimus/Prices/ComputePrices.h"

#include <optional>

namespace optimus_prices {

/// Ranks on one machine, which share its cores.
struct SharedCores {
  int64_t cores = 0;
  /// Of a rank that computes.
  int64_t threads = 1;
  int64_t ranksPerMachine = 1;

  /// Whether a rank waits for another to give its core away. Threads of a rank
  /// are not told apart.
  bool takesTurns() const { return threads == 1 && ranksPerMachine > cores; }
};

/// Prices the work of a rank, in seconds. Threads of a process share the
/// machine, and so do ranks measured on one by the profile's collectives;
/// others have one each.
class MachinePrices {
public:
  /// Products that the profile did not measure one by one have `flopsOfRun`, a
  /// rate found in a run, where it is above 0.
  MachinePrices(const MachineProfile &profile, int64_t numRanks,
                double flopsOfRun = 0);

  /// As CollectivePrices.
  void learn(std::span<const MeasuredCollective> run, bool hasHostForEachRank) {
    communication.learn(run, hasHostForEachRank);
  }

  double getGemmSeconds(const Work &product,
                        optimus_support::ElementType factors,
                        double bytes) const {
    return slowdown * compute.getGemmSeconds(product, factors, bytes);
  }
  /// The rate of a large product of such factors, in operations a second.
  double getPeak(optimus_support::ElementType factors) const {
    return compute.getPeak(factors) / slowdown;
  }
  /// A copy of bytes that no cache has.
  double getCopySeconds(double bytes) const {
    return slowdown * compute.getCopySeconds(bytes);
  }
  /// A command other than a collective or a wait.
  double getSeconds(const CommandWork &command,
                    std::span<const Touch> touches) const {
    return slowdown * compute.getSeconds(command, touches);
  }
  /// A collective of `bytes`, the whole tensor.
  double getSeconds(CollectiveKind kind, RankGroup group, double bytes) const {
    return communication.getSeconds(kind, group, bytes);
  }

  /// Whether just that was timed, as ComputePrices and CollectivePrices say.
  bool hasPoint(const CommandWork &command) const {
    return compute.hasPoint(command);
  }
  bool hasPoints(CollectiveKind kind, RankGroup group, double bytes) const {
    return communication.hasPoints(kind, group, bytes);
  }

  /// The same with cores of its own, though other ranks were on them when it
  /// was measured.
  double getUnsharedSeconds(const CommandWork &command,
                            std::span<const Touch> touches) const {
    return compute.getSeconds(command, touches) / sharedWhenMeasured;
  }
  /// What processors spend on a collective, all ranks together; 0 where that
  /// was not measured.
  double getProcessorSeconds(CollectiveKind kind, RankGroup group,
                             double bytes) const {
    return communication.getProcessorSeconds(kind, group, bytes);
  }
  /// Beyond that, of each member: its operands may be farther away than those
  /// of the call before, with which the collective was measured.
  double getFarSeconds(RankGroup group, std::span<const Touch> touches) const;
  /// Where ranks, or they and their collectives, may want more cores than a
  /// machine has.
  const std::optional<SharedCores> &getSharedCores() const { return shared; }

  /// How many ranks take turns on a core, at least 1.
  double getRanksOfCore() const { return sharedWhenMeasured * slowdown; }

  /// Whether some core has no thread of a rank.
  bool hasIdleCores() const { return threadsOfCore < 1; }

  bool isForGpu() const { return compute.isForGpu(); }
  /// Of a rank.
  int64_t getThreads() const { return compute.getProfile().threads; }
  bool knowsColumns() const { return compute.knowsColumns(); }
  /// Whether the collectives of all axes go over one link, one after the other.
  bool axesShareLink() const {
    return communication.getProfile().axesShareLink;
  }

private:
  CollectivePrices communication;
  /// Of the profile's, the one for the threads that a rank has.
  ComputePrices compute;
  std::optional<SharedCores> shared;
  /// How much slower a rank was measured because ranks shared cores then, and
  /// how much slower than that it computes here.
  double sharedWhenMeasured = 1, slowdown = 1;
  double threadsOfCore = 1;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_MACHINEPRICES_H
