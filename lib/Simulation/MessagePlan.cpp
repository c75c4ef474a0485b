//===- MessagePlan.cpp - A collective as messages ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MessagePlan.h"

#include <algorithm>
#include <optional>

using namespace optimus_support::program;

namespace optimus_simulation {

namespace {
class Planner {
public:
  Planner(const Network &network, const std::vector<int64_t> &members,
          const Protocol &protocol, double bytes, double scale)
      : network(network), members(members), protocol(protocol),
        bytes(scale * bytes /
              protocol.getRate(network.countNodes(members) > 1)),
        scale(scale) {}

  MessagePlan make(const CollectiveT &one);

private:
  using Order = std::vector<int64_t>;

  uint32_t add(int64_t from, int64_t to, double size);
  void follow(uint32_t message, uint32_t before, Message::Reason reason);

  /// Parts of members go so many steps around each ring.
  void addRings(int64_t steps);
  /// From the root along each ring, or against it to the root.
  void addChains(int64_t root, bool isBack);
  void addTrees();
  void addTree(const std::vector<Order> &nodes, bool isMirrored, double size);
  void addAllToAll();
  void addSwitch();

  const Network &network;
  const std::vector<int64_t> &members;
  const Protocol &protocol;
  const double bytes, scale;
  MessagePlan plan;
};
} // namespace

uint32_t Planner::add(int64_t from, int64_t to, double size) {
  const double step =
      (network.isNear(from, to) ? protocol.deviceStep : protocol.nicStep) +
      network.getSocketLatency(from, to);
  plan.push_back({.from = static_cast<uint32_t>(from),
                  .to = static_cast<uint32_t>(to),
                  .bytes = size,
                  .latency = toPicoseconds(scale * step)});
  return static_cast<uint32_t>(plan.size() - 1);
}

void Planner::follow(uint32_t message, uint32_t before,
                     Message::Reason reason) {
  plan[before].successors.push_back({message, reason});
  ++plan[message].beginsAfter;
  if (reason == Message::Streams)
    ++plan[message].endsAfter;
}

void Planner::addRings(int64_t steps) {
  const std::vector<Order> rings = network.listRings(members);
  const double part = bytes / double(members.size() * rings.size());
  for (const Order &order : rings) {
    const auto size = static_cast<uint32_t>(order.size());
    const auto first = static_cast<uint32_t>(plan.size());
    for (int64_t step = 0; step != steps; ++step)
      for (uint32_t i = 0; i != size; ++i) {
        const uint32_t message = add(order[i], order[(i + 1) % size], part);
        if (step == 0)
          continue;
        const auto before = static_cast<uint32_t>(first + (step - 1) * size);
        follow(message, before + (i + size - 1) % size, Message::Comes);
        follow(message, before + i, Message::Leaves);
      }
  }
}

void Planner::addChains(int64_t root, bool isBack) {
  const std::vector<Order> rings = network.listRings(members);
  for (Order order : rings) {
    std::rotate(order.begin(), std::find(order.begin(), order.end(), root),
                order.end());
    if (isBack)
      std::reverse(order.begin(), order.end());
    for (size_t i = 0; i + 1 != order.size(); ++i) {
      const uint32_t message =
          add(order[i], order[i + 1], bytes / double(rings.size()));
      if (i > 0)
        follow(message, message - 1, Message::Streams);
    }
  }
}

/// Up and down a tree of nodes, whose members are chains behind their first.
void Planner::addTree(const std::vector<Order> &nodes, bool isMirrored,
                      double size) {
  const size_t count = nodes.size();
  // By place in the tree; that of the parent of place p is (p - 1) / 2.
  auto at = [&](size_t place) -> const Order & {
    return nodes[isMirrored ? count - 1 - place : place];
  };
  // What comes together at each place before it goes up.
  std::vector<std::vector<uint32_t>> coming(count);
  auto addAfter = [&](int64_t from, int64_t to,
                      const std::vector<uint32_t> &before) {
    const uint32_t message = add(from, to, size);
    for (uint32_t one : before)
      follow(message, one, Message::Streams);
    return message;
  };
  for (size_t place = count; place-- != 0;) {
    const Order &node = at(place);
    std::vector<uint32_t> before;
    for (size_t i = node.size(); --i != 0;)
      before = {addAfter(node[i], node[i - 1], before)};
    coming[place].insert(coming[place].end(), before.begin(), before.end());
    if (place > 0) {
      const size_t parent = (place - 1) / 2;
      coming[parent].push_back(
          addAfter(node.front(), at(parent).front(), coming[place]));
    }
  }
  // What comes down to each place.
  std::vector<std::vector<uint32_t>> down(count);
  down.front() = coming.front();
  for (size_t place = 0; place != count; ++place) {
    const Order &node = at(place);
    if (place > 0)
      down[place] = {addAfter(at((place - 1) / 2).front(), node.front(),
                              down[(place - 1) / 2])};
    std::vector<uint32_t> before = down[place];
    for (size_t i = 0; i + 1 < node.size(); ++i)
      before = {addAfter(node[i], node[i + 1], before)};
  }
}

/// Two trees for each way out of nodes, with half of its bytes each: who has
/// children in one of them has none in the other.
void Planner::addTrees() {
  const std::vector<std::vector<Order>> channels = network.listNodes(members);
  for (const std::vector<Order> &nodes : channels)
    for (bool isMirrored : {false, true})
      addTree(nodes, isMirrored, bytes / (2 * double(channels.size())));
}

void Planner::addAllToAll() {
  const auto size = static_cast<uint32_t>(members.size());
  for (uint32_t step = 1; step != size; ++step)
    for (uint32_t i = 0; i != size; ++i) {
      const uint32_t message =
          add(members[i], members[(i + step) % size], bytes / size);
      // Each has sent and got what the step before was for.
      if (step > 1) {
        const uint32_t before = (step - 2) * size;
        follow(message, before + i, Message::Leaves);
        follow(message, before + (i + size - step + 1) % size, Message::Comes);
      }
    }
}

/// Out of each member's device and back.
void Planner::addSwitch() {
  for (int64_t rank : members)
    add(rank, rank, bytes);
}

MessagePlan Planner::make(const CollectiveT &one) {
  const auto size = int64_t(members.size());
  if (size == 1)
    return {};
  switch (one.kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    addChains(members[one.root], one.kind == CollectiveKind::Reduce);
    break;
  case CollectiveKind::AllReduce:
    if (protocol.algorithm == Protocol::Switch)
      addSwitch();
    else if (protocol.algorithm == Protocol::Tree)
      addTrees();
    else
      addRings(2 * (size - 1));
    break;
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    addRings(size - 1);
    break;
  case CollectiveKind::AllToAll:
    addAllToAll();
    break;
  }
  return std::move(plan);
}

MessagePlan planMessages(const Network &network,
                         const std::vector<int64_t> &members,
                         const CollectiveT &one, const Protocol &protocol,
                         double bytes, double scale) {
  return Planner(network, members, protocol, bytes, scale).make(one);
}

MessagePlan planMessage(uint32_t from, uint32_t to, double bytes,
                        Picoseconds latency) {
  return {{.from = from, .to = to, .bytes = bytes, .latency = latency}};
}

} // namespace optimus_simulation
