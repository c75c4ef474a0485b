//===- FoldedNetwork.h - Links that stand for others ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_FOLDEDNETWORK_H
#define OPTIMUS_LIB_SIMULATION_FOLDEDNETWORK_H

#include "Folding.h"
#include "Meetings.h"
#include "MessagePlan.h"
#include "Network.h"
#include "NodeRings.h"

#include <map>
#include <tuple>
#include <utility>

namespace optimus_simulation {

/// What a meeting moves.
struct Transport {
  /// Before its bytes are under way: a start-up for each step.
  Picoseconds latency = 0;
  double bytes = 0;
  const LinkLoads *loads = nullptr;
  /// What all of it takes while no other meeting is on the links.
  Picoseconds alone = 0;
  /// One of the cluster's, or getMeasuredProtocol(). Null of messages, and
  /// where it has none.
  const Protocol *protocol = nullptr;
  /// Where it is every message: these, from `latency` on.
  const MessagePlan *messages = nullptr;
};

/// Of a collective by one protocol: steps that follow one another, within nodes
/// and between them, and the bytes on each way for one of the whole.
struct Course {
  double near = 0, far = 0, bytes = 1;
  /// Whether a step sends a part of the bytes: the next one begins when what it
  /// hands on has come, wherever others are.
  bool hasParts = false;
};

/// What a collective's steps and bytes take by themselves, in seconds.
struct Pace {
  double deviceStep, nicStep;
  /// All bytes, over the link that takes longest for them, over those between
  /// nodes, and over a device's link if it had them for itself.
  double slowest, far, near;
};

/// Stands for whatever moves a collective that was measured.
const Protocol &getMeasuredProtocol();

/// A network as its actors see it: one link of a colour stands for all, and has
/// the load of all the groups that a group of actors stands for.
class FoldedNetwork {
public:
  /// With `everyMessage`, nobody is folded.
  FoldedNetwork(Network &network, const Folding &folding, bool everyMessage);

  /// By what stands for links, bytes a second.
  std::vector<double> getCapacities() const;
  /// What stands for a link.
  uint32_t getFolded(uint32_t link) const { return folding.getLink(link); }
  const Network &getNetwork() const { return network; }

  /// Times `scale`, of latency and bytes. The command is the collective of the
  /// meeting, or one end of its message.
  Transport describe(const MeetingKey &key,
                     const optimus_support::program::CommandT &command,
                     double scale);
  bool hasEveryMessage() const { return everyMessage; }

private:
  struct Loads {
    LinkLoads loads;
    /// Of one group with all links to itself, in bytes a second, and if only
    /// those between nodes counted.
    double rate = 0, farRate = 0;
  };

  const Loads &getLoads(const Pattern &pattern, uint32_t group);
  const Loads &getMessageLoads(uint32_t from, uint32_t to);
  Transport describeMessage(const MeetingKey &key,
                            const optimus_support::program::CommandT &command,
                            double scale);
  /// Takes what was measured among so many ranks and nodes, if anything was.
  void takeMeasured(optimus_support::program::CollectiveKind kind,
                    int64_t ranks, int64_t nodes, double bytes, double scale,
                    double rate, Transport &transport) const;
  double getRate(const LinkLoads &loads, bool isFar = false) const;
  /// What steps with parts take beyond the slowest link's bytes, on nodes of so
  /// many members and their cards.
  double getStepsOnNodes(const Course &course, const Pace &pace, double members,
                         double cards);

  /// What a plan of messages depends on, beside the program and the cluster.
  struct PlanKey {
    uint32_t axes, group;
    optimus_support::program::CollectiveKind kind;
    int64_t root;
    const Protocol *protocol;
    double bytes, scale;

    auto operator<=>(const PlanKey &) const = default;
  };

  Network &network;
  const Folding &folding;
  const bool everyMessage;
  std::map<PlanKey, MessagePlan> plans;
  std::map<NodeRings, double> followed;
  std::map<std::tuple<uint32_t, uint32_t, double>, MessagePlan> messagePlans;
  /// The lowest link of each colour.
  std::vector<uint32_t> standing;
  std::map<std::pair<Pattern, uint32_t>, Loads> known;
  std::map<std::pair<uint32_t, uint32_t>, Loads> messages;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_FOLDEDNETWORK_H
