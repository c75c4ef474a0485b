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
  listCapacities();
  listPatterns();
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

int64_t Network::getCard(int64_t rank) const {
  return places[rank].device * cluster.nicsPerNode / cluster.devicesPerNode;
}

uint32_t Network::getNic(int64_t rank) const {
  return getLink(OfCards,
                 places[rank].node * cluster.nicsPerNode + getCard(rank));
}

uint32_t Network::getSwitch(int64_t rank, size_t level) const {
  return getLink(OfSwitches,
                 firstSwitches[level] +
                     places[rank].node / cluster.switches[level].nodes);
}

int64_t Network::getBranch(int64_t rank) const {
  return places[rank].node * branchesPerNode +
         places[rank].device / cluster.pcie.devicesPerSwitch;
}

int64_t Network::getDeviceOfCard(int64_t rank) const {
  return getCard(rank) * cluster.devicesPerNode / cluster.nicsPerNode;
}

int64_t Network::getBranchOfCard(int64_t rank) const {
  return places[rank].node * branchesPerNode +
         getDeviceOfCard(rank) / cluster.pcie.devicesPerSwitch;
}

std::vector<std::pair<int64_t, int64_t>>
Network::listCrossings(int64_t from, int64_t to) const {
  std::vector<std::pair<int64_t, int64_t>> crossings;
  if (!hasSockets())
    return crossings;
  auto add = [&](int64_t node, int64_t device, int64_t other) {
    const int64_t first = node * socketsPerNode,
                  a = device / cluster.sockets.devicesPerSocket,
                  b = other / cluster.sockets.devicesPerSocket;
    if (a != b)
      crossings.emplace_back(first + a, first + b);
  };
  if (isNear(from, to)) {
    add(places[from].node, places[from].device, places[to].device);
    return crossings;
  }
  add(places[from].node, places[from].device, getDeviceOfCard(from));
  add(places[to].node, getDeviceOfCard(to), places[to].device);
  return crossings;
}

double Network::getSocketLatency(int64_t from, int64_t to) const {
  return double(listCrossings(from, to).size()) * cluster.sockets.link.latency;
}

double Network::getSocketLatency(const std::vector<int64_t> &members) const {
  if (!hasSockets())
    return 0;
  const std::vector<int64_t> ring = listRings(members).front();
  double sum = 0;
  for (size_t i = 0; i != ring.size(); ++i)
    sum += getSocketLatency(ring[i], ring[(i + 1) % ring.size()]);
  return sum / double(ring.size());
}

void Network::listCapacities() {
  if (hasTree())
    branchesPerNode = cluster.devicesPerNode / cluster.pcie.devicesPerSwitch;
  if (hasSockets())
    socketsPerNode = cluster.devicesPerNode / cluster.sockets.devicesPerSocket;
  auto addPairs = [&](int64_t count, double out, double in) {
    for (int64_t i = 0; i != count; ++i)
      capacities.insert(capacities.end(), {out, in});
  };
  auto add = [&](Level level, int64_t count, const ClusterLink &link) {
    first[level + 1] = first[level] + count;
    addPairs(count, link.bytesPerSecond, link.getInRate());
  };
  add(OfDevices, int64_t(places.size()), cluster.deviceLink);
  add(OfCards, numNodes * cluster.nicsPerNode, cluster.nic);
  int64_t numSwitches = 0;
  for (const SwitchLevel &level : cluster.switches) {
    const int64_t count = (numNodes + level.nodes - 1) / level.nodes;
    const double cards = double(cluster.nicsPerNode) * double(level.nodes) /
                         level.oversubscription;
    firstSwitches.push_back(numSwitches);
    addPairs(count, cards * cluster.nic.bytesPerSecond,
             cards * cluster.nic.getInRate());
    numSwitches += count;
  }
  first[OfBranches] = first[OfSwitches] + numSwitches;
  add(OfBranches, numNodes * branchesPerNode, {cluster.pcie.bytesPerSecond});
  add(OfSockets, numNodes * socketsPerNode, cluster.sockets.link);
}

Network::Level Network::getLevel(uint32_t link) const {
  int level = 0;
  while (link / 2 >= first[level + 1])
    ++level;
  return Level(level);
}

int Network::getKind(uint32_t link) const {
  return 2 * getLevel(link) + int(link % 2);
}

std::string Network::getName(uint32_t link) const {
  const Level level = getLevel(link);
  const int64_t number = link / 2 - first[level];
  const char *direction = link % 2 == 0 ? "out of " : "into ";
  switch (level) {
  case OfDevices:
    return concat(direction, "the device of rank ", number);
  case OfCards:
    return concat(direction, "card ", number % cluster.nicsPerNode, " of node ",
                  number / cluster.nicsPerNode);
  case OfBranches:
    return concat(direction, "PCIe switch ", number % branchesPerNode,
                  " of node ", number / branchesPerNode);
  case OfSockets:
    return concat(direction, "socket ", number % socketsPerNode, " of node ",
                  number / socketsPerNode);
  case OfSwitches:
  case NumLevels:
    break;
  }
  const size_t tier =
      std::ranges::upper_bound(firstSwitches, number) - firstSwitches.begin();
  return concat(direction, "switch ", number - firstSwitches[tier - 1],
                firstSwitches.size() > 1 ? concat(" of level ", tier) : "");
}

/// What is between devices, or between them and their cards, if both are not on
/// one PCIe switch.
void Network::addBranches(int64_t from, int64_t to, double weight,
                          LoadMap &loads) const {
  const bool isFar = !isNear(from, to),
             isOnRoot = cluster.pcie.cards == PcieTree::OnRoot;
  auto goesUp = [&](int64_t rank, int64_t other) {
    return isFar ? isOnRoot || getBranch(rank) != getBranchOfCard(rank)
                 : getBranch(rank) != getBranch(other);
  };
  auto addCard = [&](int64_t rank, int64_t direction) {
    if (!isOnRoot)
      loads[getLink(OfBranches, getBranchOfCard(rank)) + direction] += weight;
  };
  if (goesUp(from, to)) {
    loads[getLink(OfBranches, getBranch(from))] += weight;
    if (isFar)
      addCard(from, 1);
  }
  if (goesUp(to, from)) {
    loads[getLink(OfBranches, getBranch(to)) + 1] += weight;
    if (isFar)
      addCard(to, 0);
  }
}

void Network::addPath(int64_t from, int64_t to, double weight,
                      LoadMap &loads) const {
  if (isNear(from, to) || hasTree()) {
    loads[getDevice(from)] += weight;
    loads[getDevice(to) + 1] += weight;
  }
  if (hasTree())
    addBranches(from, to, weight, loads);
  for (auto [out, in] : listCrossings(from, to)) {
    loads[getLink(OfSockets, out)] += weight;
    loads[getLink(OfSockets, in) + 1] += weight;
  }
  if (isNear(from, to))
    return;
  loads[getNic(from)] += weight;
  loads[getNic(to) + 1] += weight;
  for (size_t level = 0; level != cluster.switches.size(); ++level)
    if (const uint32_t out = getSwitch(from, level), in = getSwitch(to, level);
        out != in) {
      loads[out] += weight;
      loads[in + 1] += weight;
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

std::vector<std::vector<std::vector<int64_t>>>
Network::listNodes(const std::vector<int64_t> &members) const {
  std::map<int64_t, std::vector<int64_t>> byNode;
  for (int64_t rank : members)
    byNode[places[rank].node].push_back(rank);
  size_t ways = members.size();
  for (const auto &[node, list] : byNode)
    ways = std::min(ways, list.size());
  if (byNode.size() == 1)
    ways = 1;
  std::vector<std::vector<std::vector<int64_t>>> lists(ways);
  for (size_t way = 0; way != ways; ++way)
    for (const auto &[node, list] : byNode) {
      lists[way].push_back(list);
      std::vector<int64_t> &order = lists[way].back();
      std::rotate(order.begin(), order.begin() + int64_t(way), order.end());
    }
  return lists;
}

std::vector<std::vector<int64_t>>
Network::listRings(const std::vector<int64_t> &members) const {
  std::vector<std::vector<int64_t>> rings;
  for (const std::vector<std::vector<int64_t>> &nodes : listNodes(members)) {
    std::vector<int64_t> &ring = rings.emplace_back();
    for (const std::vector<int64_t> &node : nodes)
      ring.insert(ring.end(), node.begin(), node.end());
  }
  return rings;
}

void Network::addRings(const std::vector<int64_t> &members, Way way,
                       int64_t root, LoadMap &loads) const {
  const std::vector<std::vector<int64_t>> rings = listRings(members);
  for (const std::vector<int64_t> &order : rings)
    for (size_t i = 0; i != order.size(); ++i) {
      const int64_t from = order[i], to = order[(i + 1) % order.size()];
      if (way != Way::Ring && to == members[root])
        continue;
      if (way == Way::ChainBack)
        addPath(to, from, 1.0 / double(rings.size()), loads);
      else
        addPath(from, to, 1.0 / double(rings.size()), loads);
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

int64_t Network::countCards(const std::vector<int64_t> &members) const {
  std::set<uint32_t> cards;
  for (int64_t rank : members)
    cards.insert(getNic(rank));
  return int64_t(cards.size());
}

} // namespace optimus_simulation
