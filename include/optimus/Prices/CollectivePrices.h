//===- CollectivePrices.h - What collectives take ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_COLLECTIVEPRICES_H
#define OPTIMUS_PRICES_COLLECTIVEPRICES_H

#include "optimus/Prices/MachineProfile.h"

#include "optimus-support/Program.h"

#include <span>

namespace optimus_prices {

using optimus_support::program::CollectiveKind;

/// The ranks of a collective: so many, whose numbers lie `stride` apart.
struct RankGroup {
  int64_t ranks = 1;
  int64_t stride = 1;

  bool operator==(const RankGroup &other) const = default;
};

/// A collective of a run: of `bytes`, the whole tensor, from start to end.
struct MeasuredCollective {
  CollectiveKind kind;
  RankGroup group;
  double bytes, seconds;
};

/// What a collective of so many bytes was measured to take: between points by
/// interpolation, beyond them by its line.
double getMeasuredSeconds(const CollectiveProfile &measured, double bytes);

/// Prices collectives, in seconds.
class CollectivePrices {
public:
  explicit CollectivePrices(CommunicationProfile profile)
      : profile(std::move(profile)) {}

  /// Prices collectives among the same ranks as a collective of the run by the
  /// links found in that run. Ranks that each had a host of their own have one
  /// link for all axes.
  void learn(std::span<const MeasuredCollective> run, bool hasHostForEachRank);

  const CommunicationProfile &getProfile() const { return profile; }

  /// A collective of `bytes`, the whole tensor.
  double getSeconds(CollectiveKind kind, RankGroup group, double bytes) const;
  /// Whether it was timed among as many ranks, and two of sizes around it.
  bool hasPoints(CollectiveKind kind, RankGroup group, double bytes) const;
  /// What processors spend on it, all ranks together; 0 where that was not
  /// measured.
  double getProcessorSeconds(CollectiveKind kind, RankGroup group,
                             double bytes) const;

private:
  struct MeasuredLink {
    RankGroup group;
    double alpha, beta;
  };

  /// What was measured of a kind among the nearest number of ranks.
  const CollectiveProfile *findNearest(CollectiveKind kind,
                                       int64_t ranks) const;
  /// Among ranks that share the nearest links.
  double getNearSeconds(CollectiveKind kind, int64_t ranks, double bytes) const;

  CommunicationProfile profile;
  std::vector<MeasuredLink> links;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_COLLECTIVEPRICES_H
