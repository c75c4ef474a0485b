//===- NodeRings.h - Rings that leave nodes by each member ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_NODERINGS_H
#define OPTIMUS_LIB_SIMULATION_NODERINGS_H

#include <compare>
#include <cstdint>

namespace optimus_simulation {

/// A group on nodes of k members each, and k rings, each of which leaves and
/// enters a node by other members. In a step every member sends a part of the
/// bytes on every ring, once what it hands on has come and the part before it
/// has left.
///
/// All nodes do the same at the same time, and so one is followed alone: what
/// it sends, it gets.
struct NodeRings {
  /// On a node, and the network cards that they share.
  int64_t members = 1, cards = 1;
  int64_t steps = 0;
  /// Bytes of a message, and a second out of a device and out of a card, and
  /// into them.
  double part = 0, deviceRate = 1, cardRate = 1;
  /// Seconds until a message has come, within a node and between nodes.
  double deviceStep = 0, cardStep = 0;

  auto operator<=>(const NodeRings &) const = default;
};

/// Seconds until the last part has come. Of many steps the first turns are
/// followed, until each takes as long as the one before.
double followRings(const NodeRings &rings);

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_NODERINGS_H
