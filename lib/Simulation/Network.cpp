//===- Network.cpp - Collectives on the links of a cluster ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Network.h"

#include "optimus/Prices/ProgramWork.h"

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

std::vector<double> Network::getCapacities() const {
  std::vector<double> capacities(2 * places.size(),
                                 cluster.deviceLink.bytesPerSecond);
  capacities.insert(capacities.end(), 2 * numNodes * cluster.nicsPerNode,
                    cluster.nic.bytesPerSecond);
  capacities.insert(capacities.end(), 2 * numSwitches,
                    cluster.nic.bytesPerSecond *
                        double(cluster.nicsPerNode * cluster.nodesPerSwitch) /
                        cluster.oversubscription);
  return capacities;
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
                      std::map<uint32_t, double> &loads) const {
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
// Meetings
//===----------------------------------------------------------------------===//

std::vector<int64_t> Network::listMembers(const MeetingKey &key) const {
  if (key.second != kNoMeeting)
    return {key.first, key.second};
  const optimus_support::Mesh &mesh = program.getMesh();
  const std::vector<uint32_t> &axes = program.getAxes()[key.axes];
  std::vector<int64_t> members{key.first};
  // The first axis is slowest.
  for (uint32_t axis : axes) {
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

std::vector<int64_t>
Network::orderRing(const std::vector<std::vector<int64_t>> &nodes,
                   size_t ring) {
  std::vector<int64_t> order;
  for (const std::vector<int64_t> &node : nodes)
    for (size_t i = 0; i != node.size(); ++i)
      order.push_back(node[(ring + i) % node.size()]);
  return order;
}

LinkLoads Network::makeLoads(const MeetingKey &key, Way way,
                             int64_t root) const {
  const std::vector<int64_t> members = listMembers(key);
  std::map<uint32_t, double> loads;
  if (way == Way::Message) {
    addPath(key.first, key.second, 1, loads);
  } else if (way == Way::All) {
    for (int64_t from : members)
      for (int64_t to : members)
        if (from != to)
          addPath(from, to, 1.0 / double(members.size() - 1), loads);
  } else {
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
        // A chain does not come back to its root.
        if (way != Way::Ring && to == members[root])
          continue;
        if (way == Way::ChainBack)
          addPath(to, from, 1.0 / double(rings), loads);
        else
          addPath(from, to, 1.0 / double(rings), loads);
      }
    }
  }
  LinkLoads result;
  for (auto [link, perByte] : loads)
    result.push_back({link, perByte});
  return result;
}

/// The slowest step of the way between neighbours.
double Network::getLatency(const std::vector<int64_t> &members) const {
  double latency = 0;
  for (int64_t rank : members)
    latency = std::max(latency, isNear(members.front(), rank)
                                    ? cluster.deviceLink.latency
                                    : cluster.nic.latency);
  return latency;
}

Transport Network::describe(const MeetingKey &key, const CommandT &command,
                            double scale) {
  const std::vector<int64_t> members = listMembers(key);
  const double count = double(members.size());
  const double part = (count - 1) / count;
  Way way = Way::Message;
  double steps = 1, bytes = 0;
  int64_t root = 0;
  if (const CollectiveT *one = command.action.AsCollective()) {
    bytes = optimus_prices::getWholeBytes(command, int64_t(members.size()));
    switch (one->kind) {
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
      way = one->kind == CollectiveKind::Reduce ? Way::ChainBack : Way::Chain;
      root = one->root;
      steps = std::ceil(std::log2(count));
      break;
    case CollectiveKind::AllReduce:
      way = Way::Ring;
      steps = 2 * (count - 1);
      bytes *= 2 * part;
      break;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      way = Way::Ring;
      steps = count - 1;
      bytes *= part;
      break;
    case CollectiveKind::AllToAll:
      way = Way::All;
      steps = count - 1;
      bytes *= part;
      break;
    }
  } else {
    const OperandT &moved = *command.operands.front();
    bytes = double(moved.rows) * double(moved.row_bytes);
  }
  auto &loads = known[{key.axes, key.first, key.second, int(way), root}];
  if (!loads)
    loads = std::make_unique<LinkLoads>(
        members.size() > 1 ? makeLoads(key, way, root) : LinkLoads());
  const double latency = members.size() > 1 ? steps * getLatency(members) : 0;
  return {static_cast<Picoseconds>(std::llround(scale * latency * 1e12)),
          members.size() > 1 ? scale * bytes : 0, loads.get()};
}

} // namespace optimus_simulation
