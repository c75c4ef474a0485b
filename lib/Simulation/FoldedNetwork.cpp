//===- FoldedNetwork.cpp - Links that stand for others ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FoldedNetwork.h"

#include "optimus/Prices/ProgramWork.h"

#include <algorithm>
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

double FoldedNetwork::getRate(const LinkLoads &loads, bool isFar) const {
  double rate = std::numeric_limits<double>::infinity();
  for (const LinkLoad &load : loads)
    if (!isFar || network.isBetweenNodes(load.link))
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
  const LinkLoads &alone = network.getLoads(
      pattern, folding.listGroups(pattern.axes, group).front());
  result.rate = getRate(alone);
  result.farRate = getRate(alone, /*isFar=*/true);
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

/// How long steps with parts of the bytes take beyond the slowest link's bytes,
/// where so many of the rings on a node are on a link at a time.
///
/// Two ways may be the longest: all parts over the slowest link, one after the
/// other, until the last one has come; or one part around, over links that take
/// less for it. The last turn, if it is no whole one, may stay at that link.
static double getExposed(const Course &course, const Pace &pace, double members,
                         double together) {
  const double steps = course.near + course.far;
  const double near = pace.deviceStep + together * pace.near / steps;
  const double ofTurns =
      std::min(course.near, (course.far - 1) * (members - 1));
  const double around =
      ofTurns * near +
      (course.near - ofTurns) * std::max(near, pace.slowest / steps) +
      course.far * (pace.nicStep + pace.far / steps);
  const double last = pace.far < pace.slowest ? pace.deviceStep : pace.nicStep;
  return std::max(last, around - pace.slowest);
}

/// Of rings on some nodes, each turn leaves every node once.
static Course getCourse(CollectiveKind kind, double members, double nodes,
                        Protocol::Algorithm algorithm) {
  const double part = (members - 1) / members;
  auto around = [&](double steps, double bytes, bool hasParts) {
    // The slowest way of so many steps begins by leaving a node.
    const double far = nodes > 1 ? std::ceil(steps * nodes / members) : 0;
    return Course{steps - far, far, bytes, hasParts};
  };
  switch (kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce: {
    if (algorithm != Protocol::Halves)
      return around(members - 1, 1, /*hasParts=*/false);
    const double far = std::ceil(std::log2(nodes));
    return {std::ceil(std::log2(members)) - far, far, 1};
  }
  case CollectiveKind::AllReduce:
    if (algorithm == Protocol::Switch)
      return {0, 0, 1};
    if (algorithm == Protocol::Tree)
      return {2 * (members / nodes - 1), 2 * std::ceil(std::log2(nodes)), 2};
    return around(2 * (members - 1), 2 * part, /*hasParts=*/true);
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return around(members - 1, part, /*hasParts=*/true);
  case CollectiveKind::AllToAll:
    break;
  }
  return around(members - 1, part, /*hasParts=*/false);
}

/// Between one of a node's rings on a link at a time and all of them: where
/// that matters, the rings are followed.
double FoldedNetwork::getStepsOnNodes(const Course &course, const Pace &pace,
                                      double members, double cards) {
  constexpr double kMostError = 1.01;
  auto getSteps = [&](double together) {
    return getExposed(course, pace, members, together);
  };
  const double steps = course.near + course.far;
  const bool isEven = members == std::floor(members) &&
                      cards == std::floor(cards) &&
                      network.getCluster().pcie.devicesPerSwitch == 0;
  if (!isEven || pace.slowest + getSteps(members) <
                     kMostError * (pace.slowest + getSteps(1)))
    return getSteps(std::log2(members));
  // Rates for parts of one byte.
  const NodeRings rings{.members = int64_t(members),
                        .cards = int64_t(cards),
                        .steps = int64_t(steps),
                        .part = 1,
                        .deviceRate = steps / pace.near,
                        .cardRate = members * steps / (cards * pace.far),
                        .deviceStep = pace.deviceStep,
                        .cardStep = pace.nicStep};
  auto [entry, isNew] = followed.try_emplace(rings);
  if (isNew)
    entry->second = followRings(rings);
  return std::max(0.0, entry->second - pace.slowest);
}

const Protocol &getMeasuredProtocol() {
  static const Protocol kMeasured{.name = "measured"};
  return kMeasured;
}

/// With others on the links its bytes are slower; what it takes beyond their
/// time is for steps.
void FoldedNetwork::takeMeasured(CollectiveKind kind, int64_t ranks,
                                 int64_t nodes, double bytes, double scale,
                                 double rate, Transport &transport) const {
  const auto &curves = network.getCluster().measured;
  const auto found = std::ranges::find_if(curves, [&](const auto &one) {
    return one.ranks == ranks && one.machines == nodes &&
           one.collective == toString(kind);
  });
  if (found == curves.end())
    return;
  const double seconds =
      scale * optimus_prices::getMeasuredSeconds(*found, bytes);
  transport.bytes = std::min(transport.bytes, seconds * rate);
  const Picoseconds moving = roundUp(transport.bytes / rate);
  transport.latency = std::max<Picoseconds>(0, toPicoseconds(seconds) - moving);
  transport.alone = transport.latency + moving;
  transport.protocol = &getMeasuredProtocol();
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
  double nearRate = std::min(cluster.deviceLink.bytesPerSecond,
                             cluster.deviceLink.getInRate());
  if (cluster.pcie.devicesPerSwitch > 0)
    nearRate = std::min(nearRate, cluster.pcie.bytesPerSecond);
  Protocol plain;
  plain.deviceStep = cluster.deviceLink.latency;
  plain.nicStep = cluster.nic.latency;
  const double crossing = network.getSocketLatency(members);
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
    const double bytes = course.bytes * whole / protocol.getRate(nodes > 1);
    const double perNode = double(members.size()) / double(nodes);
    double steps =
        course.near * protocol.deviceStep + course.far * protocol.nicStep;
    if (course.hasParts && nodes > 1 && perNode > 1)
      steps = getStepsOnNodes(
          course,
          {protocol.deviceStep, protocol.nicStep, bytes / loads.rate,
           bytes / loads.farRate, bytes / (perNode * nearRate)},
          perNode, double(network.countCards(members)) / double(nodes));
    steps += (course.near + course.far) * crossing;
    transport.latency = toPicoseconds(scale * (protocol.start + steps));
    transport.bytes = scale * bytes;
    transport.alone = transport.latency + roundUp(transport.bytes / loads.rate);
    if (!best || transport.alone < best->alone)
      best = transport;
  };
  for (const Protocol &protocol : cluster.protocols)
    tryProtocol(protocol, &protocol);
  if (!best)
    tryProtocol(plain, nullptr);
  takeMeasured(one->kind, int64_t(members.size()), nodes, whole, scale,
               loads.rate, *best);
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
      scale * ((isNear ? cluster.deviceLink : cluster.nic).latency +
               network.getSocketLatency(key.first, key.second)));
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
