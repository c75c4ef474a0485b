//===- Network.h - Collectives on the links of a cluster --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_NETWORK_H
#define OPTIMUS_LIB_SIMULATION_NETWORK_H

#include "Meetings.h"
#include "SharedLinks.h"

#include "optimus/Simulation/Cluster.h"
#include "optimus/Simulation/Simulator.h"

#include <map>
#include <memory>

namespace optimus_simulation {

/// What a meeting moves.
struct Transport {
  /// Before its bytes are under way: a start-up for each step.
  Picoseconds latency = 0;
  double bytes = 0;
  const LinkLoads *loads = nullptr;
};

/// The links of a cluster, and which of them collectives load how much.
///
/// Members of a group form rings: in the order of nodes, and of ranks on a
/// node. There are as many rings as members on the node with the fewest; each
/// leaves and enters a node by other members, and so by other cards.
class Network {
public:
  Network(const Cluster &cluster, std::vector<ClusterPlace> places,
          const TimedProgram &program);

  /// By link, bytes a second.
  std::vector<double> getCapacities() const;
  std::string getName(uint32_t link) const;

  /// Times `scale`, of latency and bytes.
  Transport describe(const MeetingKey &key,
                     const optimus_support::program::CommandT &command,
                     double scale);

private:
  enum class Way { Ring, Chain, ChainBack, All, Message };

  /// Links come in pairs, out and in: of devices, of cards, of switches.
  uint32_t getDevice(int64_t rank) const { return 2 * uint32_t(rank); }
  uint32_t getNic(int64_t rank) const;
  uint32_t getSwitch(int64_t rank) const;
  bool isNear(int64_t from, int64_t to) const {
    return places[from].node == places[to].node;
  }

  std::vector<int64_t> listMembers(const MeetingKey &key) const;
  /// The members in the order of one of so many rings.
  static std::vector<int64_t>
  orderRing(const std::vector<std::vector<int64_t>> &nodes, size_t ring);
  LinkLoads makeLoads(const MeetingKey &key, Way way, int64_t root) const;
  void addPath(int64_t from, int64_t to, double weight,
               std::map<uint32_t, double> &loads) const;
  double getLatency(const std::vector<int64_t> &members) const;

  const Cluster &cluster;
  const std::vector<ClusterPlace> places;
  const TimedProgram &program;
  int64_t numNodes = 0, numSwitches = 0;
  /// By axes, first and second member, way and root.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int, int64_t>,
           std::unique_ptr<LinkLoads>>
      known;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_NETWORK_H
