//===- Placement.h - Which host has which ranks -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Manifest::nodes groups ranks by nodes, in libraries for a cluster. Launchers
// fill one host after the other.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_PLACEMENT_H
#define OPTIMUS_RUNTIME_TOOLING_PLACEMENT_H

#include "optimus-runtime/ControlPlane.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// The ranks of processes in the order of a launcher, as the keys of
/// MPI_Comm_split: node by node. The first is rank 0.
///
///   nodes 0 0 1 1 0 0 1 1: ranks 0 1 4 5 2 3 6 7
std::vector<int> orderRanks(std::span<const int64_t> nodes);

/// "0,1,4,5" of each node, with bars between; of many the first ones.
std::string describeNodes(std::span<const int64_t> nodes);

/// Why ranks on these hosts reach each other otherwise than was simulated, as a
/// sentence; empty where each node's ranks share a host.
std::string explainPlacement(std::span<const int64_t> nodes,
                             std::span<const std::string> hosts);

/// The same of the hosts on which these processes run. Collective, where nodes
/// are known.
std::string explainPlacement(std::span<const int64_t> nodes,
                             ControlPlane &control);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_PLACEMENT_H
