//===- MessagePlan.h - A collective as messages -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_MESSAGEPLAN_H
#define OPTIMUS_LIB_SIMULATION_MESSAGEPLAN_H

#include "Network.h"

namespace optimus_simulation {

/// Bytes from one rank to another, and what they keep waiting.
struct Message {
  enum Reason : uint8_t {
    /// Begins when this one has come.
    Comes,
    /// Begins when this one has left: one link, one after the other.
    Leaves,
    /// Hands on what comes: begins with its first byte, ends after its last.
    Streams,
  };
  struct Successor {
    uint32_t message;
    Reason reason;
  };
  uint32_t from = 0, to = 0;
  double bytes = 0;
  /// From the last byte's leaving to its coming.
  Picoseconds latency = 0;
  std::vector<Successor> successors = {};
  /// How many must have let it begin, and end.
  uint32_t beginsAfter = 0, endsAfter = 0;
};
using MessagePlan = std::vector<Message>;

/// A collective of so many bytes, the whole tensor, among members by one
/// protocol; `scale` times the bytes and what steps take.
///
/// All-gather and reduce-scatter go around rings in steps, each of a part of
/// each member; all-reduce goes around twice, or up two trees of nodes and down
/// again, chains within nodes. Broadcasts and reductions are handed on along
/// chains. In all-to-all each member sends to one after the other.
///
///   all-gather among 0, 1, 2: 0→1 1→2 2→0, then the same with what has come
MessagePlan planMessages(const Network &network,
                         const std::vector<int64_t> &members,
                         const optimus_support::program::CollectiveT &one,
                         const Protocol &protocol, double bytes, double scale);

/// One message.
MessagePlan planMessage(uint32_t from, uint32_t to, double bytes,
                        Picoseconds latency);

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_MESSAGEPLAN_H
