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

namespace optimus_prices {

/// Prices the work of a rank, in seconds. Ranks that are threads share the
/// machine; others have one each.
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

  bool isForGpu() const { return compute.isForGpu(); }
  bool knowsColumns() const { return compute.knowsColumns(); }
  /// Whether the collectives of all axes go over one link, one after the other.
  bool axesShareLink() const {
    return communication.getProfile().axesShareLink;
  }

private:
  CollectivePrices communication;
  /// Of the profile's, the one for the threads that a rank has.
  ComputePrices compute;
  /// How much slower a rank computes because ranks share cores.
  double slowdown = 1;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_MACHINEPRICES_H
