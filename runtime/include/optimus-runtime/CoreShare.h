//===- CoreShare.h - The cores of a rank ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Processes of a job may share cores: all those of a machine, those with
// several processes bound to them, or the time allowed by a cgroup to all
// together. Each says what it may use, and a rank gets its part.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORESHARE_H
#define OPTIMUS_RUNTIME_CORESHARE_H

#include "optimus-runtime/ControlPlane.h"
#include "optimus-support/ResourceLimits.h"

namespace optrt {

/// Cores, and the ranks that compute on them.
struct CoreShare {
  int cores = 1, ranks = 1;
  /// The file of a cgroup that allows so few; empty where it is the affinity.
  std::string file;

  /// One at least.
  int coresPerRank() const { return cores < ranks ? 1 : cores / ranks; }
};

/// What a process tells the others: what it may use, for so many ranks.
std::string encodeCores(const optimus_support::ResourceLimits &limits,
                        int numRanks);

/// The share of process `own` among all, of what they told: the scarcest of its
/// affinity and its quotas.
///
/// Errors: Internal for a text that is none of encodeCores().
StatusOr<CoreShare> shareCores(std::span<const std::string> all,
                               std::size_t own);

/// This process's share. Collective.
StatusOr<CoreShare> shareCores(ControlPlane &control);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORESHARE_H
