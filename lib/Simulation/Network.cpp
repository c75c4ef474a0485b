//===- Network.cpp - Collectives on the links of a cluster ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Network.h"

#include <algorithm>
#include <cmath>

using namespace optimus_support::program;
using optimus_support::concat;

namespace optimus_simulation {

Network::Network(const Cluster &cluster, std::vector<ClusterPlace> given,
                 const TimedProgram &program)
    : cluster(cluster), places(std::move(given)), program(program) {
  for (const ClusterPlace &place : places)
    numNodes = std::max(numNodes, place.node + 1);
  if (cluster.nodesPerSwitch > 0)
    numSwitches =
        (numNodes + cluster.nodesPerSwitch - 1) / cluster.nodesPerSwitch;
  listCapacities();
  listPatterns();
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

uint32_t Network::getNic(int64_t rank) const {
  const ClusterPlace &place = places[rank];
  const int64_t card =
      place.device * cluster.nicsPerNode / cluster.devicesPerNode;
  return static_cast<uint32_t>(
      2 * (int64_t(places.size()) + place.node * cluster.nicsPerNode + card));
}

uint32_t Network::getSwitch(int64_t rank) const {
  const int64_t number = places[rank].node / cluster.nodesPerSwitch;
  return static_cast<uint32_t>(
      2 * (int64_t(places.size()) + numNodes * cluster.nicsPerNode + number));
}

void Network::listCapacities() {
  capacities.assign(2 * places.size(), cluster.deviceLink.bytesPerSecond);
  capacities.insert(capacities.end(), 2 * numNodes * cluster.nicsPerNode,
                    cluster.nic.bytesPerSecond);
  capacities.insert(capacities.end(), 2 * numSwitches,
                    cluster.nic.bytesPerSecond * double(cluster.nicsPerNode) *
                        double(cluster.nodesPerSwitch) /
                        cluster.oversubscription);
}

int Network::getKind(uint32_t link) const {
  const int64_t number = link / 2, devices = int64_t(places.size());
  const int level = number < devices                                    ? 0
                    : number < devices + numNodes * cluster.nicsPerNode ? 1
                                                                        : 2;
  return 2 * level + int(link % 2);
}

std::string Network::getName(uint32_t link) const {
  const char *direction = link % 2 == 0 ? "out of " : "into ";
  int64_t number = link / 2;
  if (number < int64_t(places.size()))
    return concat(direction, "the device of rank ", number);
  number -= int64_t(places.size());
  if (number < numNodes * cluster.nicsPerNode)
    return concat(direction, "card ", number % cluster.nicsPerNode, " of node ",
                  number / cluster.nicsPerNode);
  return concat(direction, "switch ", number - numNodes * cluster.nicsPerNode);
}

void Network::addPath(int64_t from, int64_t to, double weight,
                      LoadMap &loads) const {
  if (isNear(from, to)) {
    loads[getDevice(from)] += weight;
    loads[getDevice(to) + 1] += weight;
    return;
  }
  loads[getNic(from)] += weight;
  loads[getNic(to) + 1] += weight;
  if (numSwitches > 0 && getSwitch(from) != getSwitch(to)) {
    loads[getSwitch(from)] += weight;
    loads[getSwitch(to) + 1] += weight;
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

int64_t Network::countMembers(uint32_t axes) const {
  int64_t members = 1;
  for (uint32_t axis : program.getAxes()[axes])
    members *= program.getMesh().axisSize(int(axis));
  return members;
}

std::vector<int64_t> Network::listMembers(uint32_t axes, int64_t lowest) const {
  const optimus_support::Mesh &mesh = program.getMesh();
  std::vector<int64_t> members{lowest};
  // The first axis is slowest.
  for (uint32_t axis : program.getAxes()[axes]) {
    const std::vector<int64_t> before = std::move(members);
    members.clear();
    for (int64_t rank : before) {
      std::vector<int64_t> coordinates = mesh.coordinates(rank);
      for (int64_t at = 0; at != mesh.axisSize(int(axis)); ++at) {
        coordinates[axis] = at;
        members.push_back(mesh.rank(coordinates));
      }
    }
  }
  return members;
}

Pattern Network::getPattern(uint32_t axes, const CollectiveT &one) const {
  constexpr int64_t kLarge = 16;
  switch (one.kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    if (countMembers(axes) >= kLarge)
      break;
    return {axes,
            one.kind == CollectiveKind::Reduce ? Way::ChainBack : Way::Chain,
            one.root};
  case CollectiveKind::AllToAll:
    return {axes, Way::All, 0};
  case CollectiveKind::AllReduce:
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    break;
  }
  return {axes, Way::Ring, 0};
}

void Network::listPatterns() {
  program.forEachFunction([&](const TimedFunction &function) {
    for (size_t number = 0; number != function.commands.size(); ++number)
      if (const CollectiveT *one =
              function.source->commands[number]->action.AsCollective())
        patterns.insert(getPattern(function.commands[number].axes, *one));
  });
}

/// The members in the order of one of the rings.
static std::vector<int64_t>
orderRing(const std::vector<std::vector<int64_t>> &nodes, size_t ring) {
  std::vector<int64_t> order;
  for (const std::vector<int64_t> &node : nodes)
    for (size_t i = 0; i != node.size(); ++i)
      order.push_back(node[(ring + i) % node.size()]);
  return order;
}

void Network::addRings(const std::vector<int64_t> &members, Way way,
                       int64_t root, LoadMap &loads) const {
  std::map<int64_t, std::vector<int64_t>> byNode;
  for (int64_t rank : members)
    byNode[places[rank].node].push_back(rank);
  std::vector<std::vector<int64_t>> nodes;
  size_t rings = members.size();
  for (auto &[node, list] : byNode) {
    rings = std::min(rings, list.size());
    nodes.push_back(std::move(list));
  }
  for (size_t ring = 0; ring != rings; ++ring) {
    const std::vector<int64_t> order = orderRing(nodes, ring);
    for (size_t i = 0; i != order.size(); ++i) {
      const int64_t from = order[i], to = order[(i + 1) % order.size()];
      if (way != Way::Ring && to == members[root])
        continue;
      if (way == Way::ChainBack)
        addPath(to, from, 1.0 / double(rings), loads);
      else
        addPath(from, to, 1.0 / double(rings), loads);
    }
  }
}

/// As multiples of the least load.
static LinkLoads listLoads(const std::map<uint32_t, double> &loads) {
  LinkLoads result;
  for (auto [link, perByte] : loads)
    result.push_back({link, std::round(perByte / kLeastLoad) * kLeastLoad});
  return result;
}

const LinkLoads &Network::getLoads(const Pattern &pattern, int64_t lowest) {
  auto [entry, isNew] = known.try_emplace({pattern, lowest});
  if (!isNew)
    return entry->second;
  const std::vector<int64_t> members = listMembers(pattern.axes, lowest);
  LoadMap loads;
  if (pattern.way == Way::All) {
    for (int64_t from : members)
      for (int64_t to : members)
        if (from != to)
          addPath(from, to, 1.0 / double(members.size() - 1), loads);
  } else if (members.size() > 1) {
    addRings(members, pattern.way, pattern.root, loads);
  }
  return entry->second = listLoads(loads);
}

LinkLoads Network::getLoads(int64_t from, int64_t to) const {
  LoadMap loads;
  addPath(from, to, 1, loads);
  return listLoads(loads);
}

int64_t Network::countNodes(const std::vector<int64_t> &members) const {
  std::set<int64_t> nodes;
  for (int64_t rank : members)
    nodes.insert(places[rank].node);
  return int64_t(nodes.size());
}

} // namespace optimus_simulation
