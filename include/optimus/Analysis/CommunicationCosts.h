//===- CommunicationCosts.h - What collectives take -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_COMMUNICATIONCOSTS_H
#define OPTIMUS_ANALYSIS_COMMUNICATIONCOSTS_H

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/RunProfile.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

namespace mlir::optimus {

/// The ranks of a collective: so many, whose numbers lie `stride` apart.
struct RankGroup {
  int64_t ranks = 1;
  int64_t stride = 1;

  bool operator==(const RankGroup &other) const {
    return ranks == other.ranks && stride == other.stride;
  }
};

/// Those that differ in their coordinate on an axis only.
RankGroup getRankGroup(MeshOp mesh, StringRef axis);

class CommunicationCosts {
public:
  explicit CommunicationCosts(CommunicationProfile profile)
      : profile(std::move(profile)) {}

  /// Prices collectives among the same ranks as a collective of the run by the
  /// links found in that run. Ranks that each had a host of their own have one
  /// link for all axes.
  void learn(const RunProfile &run);

  const CommunicationProfile &getProfile() const { return profile; }

  /// A collective of `bytes`, the whole tensor.
  double getSeconds(exec::CollectiveKind kind, RankGroup group,
                    double bytes) const;

private:
  struct MeasuredLink {
    RankGroup group;
    double alpha, beta;
  };

  /// Among ranks that share the nearest links.
  double getNearSeconds(exec::CollectiveKind kind, int64_t ranks,
                        double bytes) const;

  CommunicationProfile profile;
  SmallVector<MeasuredLink, 2> links;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_COMMUNICATIONCOSTS_H
