//===- FoldedNetwork.cpp - Links that stand for others ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FoldedNetwork.h"

#include "optimus/Prices/ProgramWork.h"

#include <cmath>
#include <limits>
#include <optional>

using namespace optimus_support::program;

namespace optimus_simulation {

FoldedNetwork::FoldedNetwork(Network &network, const Folding &folding,
                             bool everyMessage)
    : network(network), folding(folding), everyMessage(everyMessage) {
  // Of a colour, the lowest link comes first.
  for (uint32_t link = 0; link != network.getNumLinks(); ++link)
    if (folding.getLink(link) == standing.size())
      standing.push_back(link);
}

std::vector<double> FoldedNetwork::getCapacities() const {
  std::vector<double> capacities;
  for (uint32_t link : standing)
    capacities.push_back(network.getCapacity(link));
  return capacities;
}

double FoldedNetwork::getRate(const LinkLoads &loads) const {
  double rate = std::numeric_limits<double>::infinity();
  for (const LinkLoad &load : loads)
    rate = std::min(rate, network.getCapacity(load.link) / load.perByte);
  return rate;
}

const FoldedNetwork::Loads &FoldedNetwork::getLoads(const Pattern &pattern,
                                                    uint32_t group) {
  auto [entry, isNew] = known.try_emplace({pattern, group});
  Loads &result = entry->second;
  if (!isNew)
    return result;
  std::map<uint32_t, double> sums;
  for (int64_t lowest : folding.listGroups(pattern.axes, group))
    for (const LinkLoad &load : network.getLoads(pattern, lowest)) {
      const uint32_t link = folding.getLink(load.link);
      if (standing[link] == load.link)
        sums[link] += load.perByte;
    }
  for (auto [link, perByte] : sums)
    result.loads.push_back({link, perByte});
  result.rate = getRate(network.getLoads(
      pattern, folding.listGroups(pattern.axes, group).front()));
  return result;
}

/// A message has links of its own: with messages, nobody is folded.
const FoldedNetwork::Loads &FoldedNetwork::getMessageLoads(uint32_t from,
                                                           uint32_t to) {
  auto [entry, isNew] = messages.try_emplace({from, to});
  if (isNew) {
    entry->second.loads = network.getLoads(from, to);
    entry->second.rate = getRate(entry->second.loads);
  }
  return entry->second;
}

namespace {
/// Of a collective by one protocol: steps that follow one another, within nodes
/// and between them, and the bytes on each way for one of the whole.
struct Course {
  double near = 0, far = 0, bytes = 1;
};
} // namespace

/// Of rings on some nodes, each turn leaves every node once.
static Course getCourse(CollectiveKind kind, double members, double nodes,
                        Protocol::Algorithm algorithm) {
  const double part = (members - 1) / members;
  const double away = nodes > 1 ? nodes / members : 0;
  auto around = [&](double steps, double bytes) {
    return Course{steps * (1 - away), steps * away, bytes};
  };
  switch (kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    return around(algorithm == Protocol::Halves ? std::ceil(std::log2(members))
                                                : members - 1,
                  1);
  case CollectiveKind::AllReduce:
    if (algorithm == Protocol::Switch)
      return {0, 0, 1};
    if (algorithm == Protocol::Tree)
      return {2 * (members / nodes - 1), 2 * std::ceil(std::log2(nodes)), 2};
    return around(2 * (members - 1), 2 * part);
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    break;
  }
  return around(members - 1, part);
}

Transport FoldedNetwork::describe(const MeetingKey &key,
                                  const CommandT &command, double scale) {
  const CollectiveT *one = command.action.AsCollective();
  if (!one)
    return describeMessage(key, command, scale);
  const std::vector<int64_t> members = network.listMembers(
      key.axes, folding.listGroups(key.axes, key.first).front());
  const Loads &loads = getLoads(network.getPattern(key.axes, *one), key.first);
  if (members.size() == 1) {
    static const MessagePlan kNone;
    return {.loads = &loads.loads, .messages = everyMessage ? &kNone : nullptr};
  }
  const int64_t nodes = network.countNodes(members);
  const double whole =
      optimus_prices::getWholeBytes(command, int64_t(members.size()));
  const Cluster &cluster = network.getCluster();
  Protocol plain;
  plain.deviceStep = cluster.deviceLink.latency;
  plain.nicStep = cluster.nic.latency;
  std::optional<Transport> best;
  auto tryProtocol = [&](const Protocol &protocol, const Protocol *named) {
    const bool isOfAll = protocol.algorithm == Protocol::Halves ||
                         protocol.algorithm == Protocol::Ring;
    if ((!isOfAll && one->kind != CollectiveKind::AllReduce) ||
        (protocol.algorithm == Protocol::Switch && nodes > 1))
      return;
    const Course course = getCourse(one->kind, double(members.size()),
                                    double(nodes), protocol.algorithm);
    Transport transport;
    transport.loads = &loads.loads;
    transport.protocol = named;
    transport.latency = toPicoseconds(
        scale * (protocol.start + course.near * protocol.deviceStep +
                 course.far * protocol.nicStep));
    transport.bytes = scale * course.bytes * whole / protocol.rate;
    transport.alone = transport.latency + roundUp(transport.bytes / loads.rate);
    if (!best || transport.alone < best->alone)
      best = transport;
  };
  for (const Protocol &protocol : cluster.protocols)
    tryProtocol(protocol, &protocol);
  if (!best)
    tryProtocol(plain, nullptr);
  if (!everyMessage)
    return *best;
  const Protocol &taken = best->protocol ? *best->protocol : plain;
  auto [plan, isNew] =
      plans.try_emplace({key.axes, key.first, one->kind, one->root,
                         best->protocol, whole, scale});
  if (isNew)
    plan->second = planMessages(network, members, *one, taken, whole, scale);
  best->messages = &plan->second;
  best->latency = toPicoseconds(scale * taken.start);
  return *best;
}

Transport FoldedNetwork::describeMessage(const MeetingKey &key,
                                         const CommandT &command,
                                         double scale) {
  const Loads &loads = getMessageLoads(key.first, key.second);
  const OperandT &moved = *command.operands.front();
  const double bytes = scale * double(moved.rows) * double(moved.row_bytes);
  const Cluster &cluster = network.getCluster();
  const bool isNear = network.countNodes({key.first, key.second}) == 1;
  const Picoseconds latency = toPicoseconds(
      scale * (isNear ? cluster.deviceLink : cluster.nic).latency);
  Transport transport{latency, bytes, &loads.loads,
                      latency + roundUp(bytes / loads.rate)};
  if (everyMessage) {
    auto [plan, isNew] =
        messagePlans.try_emplace({key.first, key.second, bytes});
    if (isNew)
      plan->second = planMessage(key.first, key.second, bytes, latency);
    transport.messages = &plan->second;
    transport.latency = 0;
  }
  return transport;
}

} // namespace optimus_simulation
