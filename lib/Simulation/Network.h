//===- Network.h - Collectives on the links of a cluster --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_NETWORK_H
#define OPTIMUS_LIB_SIMULATION_NETWORK_H

#include "SharedLinks.h"

#include "optimus/Simulation/Cluster.h"
#include "optimus/Simulation/TimedProgram.h"

#include <map>
#include <set>

namespace optimus_simulation {

/// How members of a group move bytes.
enum class Way { Ring, Chain, ChainBack, All };

/// What groups on these axes ask of links. Chains lack the link to their root.
struct Pattern {
  uint32_t axes;
  Way way;
  int64_t root;

  auto operator<=>(const Pattern &) const = default;
};

/// The links of a cluster, and which of them collectives load how much.
///
/// Members of a group form rings: in the order of nodes, and of ranks on a
/// node. There are as many rings as members on the node with the fewest; each
/// leaves and enters a node by other members, and so by other cards.
///
/// A broadcast does not come back to its root. In a large group that is one
/// link of many and counts as if it did: then links do not depend on roots, and
/// ranks fold.
class Network {
public:
  Network(const Cluster &cluster, std::vector<ClusterPlace> places,
          const TimedProgram &program);

  size_t getNumLinks() const { return capacities.size(); }
  /// Bytes a second.
  double getCapacity(uint32_t link) const { return capacities[link]; }
  std::string getName(uint32_t link) const;
  /// Those of a level and direction are of a kind.
  int getKind(uint32_t link) const;
  bool isBetweenNodes(uint32_t link) const {
    const Level level = getLevel(link);
    return level == OfCards || level == OfSwitches;
  }

  /// That of a collective.
  Pattern getPattern(uint32_t axes,
                     const optimus_support::program::CollectiveT &one) const;
  /// Those of all collectives of the program.
  const std::set<Pattern> &getPatterns() const { return patterns; }

  int64_t countMembers(uint32_t axes) const;
  /// The group with this lowest rank.
  std::vector<int64_t> listMembers(uint32_t axes, int64_t lowest) const;
  /// What it loads, for a byte.
  const LinkLoads &getLoads(const Pattern &pattern, int64_t lowest);
  /// What a message loads.
  LinkLoads getLoads(int64_t from, int64_t to) const;
  const Cluster &getCluster() const { return cluster; }
  bool isNear(int64_t from, int64_t to) const {
    return places[from].node == places[to].node;
  }
  /// What a message takes to go from socket to socket, beside its step.
  double getSocketLatency(int64_t from, int64_t to) const;
  /// The same of a step of a ring among members, on average.
  double getSocketLatency(const std::vector<int64_t> &members) const;
  /// The members by their nodes; one list for each way out of a node, which
  /// begins with another of its members. On one node all are the same.
  std::vector<std::vector<std::vector<int64_t>>>
  listNodes(const std::vector<int64_t> &members) const;
  /// The same as rings.
  std::vector<std::vector<int64_t>>
  listRings(const std::vector<int64_t> &members) const;
  /// How many nodes these ranks are on.
  int64_t countNodes(const std::vector<int64_t> &members) const;
  /// How many network cards they have.
  int64_t countCards(const std::vector<int64_t> &members) const;

private:
  void listCapacities();
  void listPatterns();

  /// Links come in pairs, out and in: of devices, of cards, of switches between
  /// nodes, of PCIe switches, of sockets.
  enum Level {
    OfDevices,
    OfCards,
    OfSwitches,
    OfBranches,
    OfSockets,
    NumLevels
  };
  Level getLevel(uint32_t link) const;
  uint32_t getLink(Level level, int64_t number) const {
    return static_cast<uint32_t>(2 * (first[level] + number));
  }
  uint32_t getDevice(int64_t rank) const { return getLink(OfDevices, rank); }
  /// The number of a rank's card on its node.
  int64_t getCard(int64_t rank) const;
  uint32_t getNic(int64_t rank) const;
  /// That of a rank's node at a level, numbered through all levels.
  uint32_t getSwitch(int64_t rank, size_t level) const;
  bool hasTree() const { return cluster.pcie.devicesPerSwitch > 0; }
  /// The number of a rank's PCIe switch among all, and that of its card.
  int64_t getBranch(int64_t rank) const;
  int64_t getBranchOfCard(int64_t rank) const;
  /// The device on its node that a rank's card is nearest to.
  int64_t getDeviceOfCard(int64_t rank) const;
  bool hasSockets() const { return cluster.sockets.devicesPerSocket > 0; }
  /// The numbers of the sockets that bytes pass, two of each link: of a near
  /// path those of both devices; else those of a device and its card, twice.
  /// Nothing where they are the same.
  std::vector<std::pair<int64_t, int64_t>> listCrossings(int64_t from,
                                                         int64_t to) const;

  using LoadMap = std::map<uint32_t, double>;
  void addPath(int64_t from, int64_t to, double weight, LoadMap &loads) const;
  void addBranches(int64_t from, int64_t to, double weight,
                   LoadMap &loads) const;
  void addRings(const std::vector<int64_t> &members, Way way, int64_t root,
                LoadMap &loads) const;

  const Cluster &cluster;
  const std::vector<ClusterPlace> places;
  const TimedProgram &program;
  int64_t numNodes = 0, branchesPerNode = 0;
  /// Of each level of switches, the number of its first.
  std::vector<int64_t> firstSwitches;
  int64_t socketsPerNode = 0;
  /// Of each level, the number of its first pair; and of all of them.
  int64_t first[NumLevels + 1] = {};
  std::vector<double> capacities;
  std::set<Pattern> patterns;
  std::map<std::pair<Pattern, int64_t>, LinkLoads> known;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_NETWORK_H
