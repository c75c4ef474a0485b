//===- Placement.cpp - Which host has which ranks -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement.h"

#include "ccl/peers/Socket.h"
#include "optimus-support/Status.h"

#include <algorithm>
#include <numeric>

using optimus_support::concat;

namespace optrt {

std::vector<int> orderRanks(std::span<const int64_t> nodes) {
  std::vector<int> ranks(nodes.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::stable_sort(ranks, {}, [&](int rank) { return nodes[rank]; });
  return ranks;
}

/// The ranks of a node, "0,1,4,5"; of many the first ones.
static std::string describeNode(std::span<const int64_t> nodes, int64_t node) {
  constexpr int kMost = 16;
  std::string text;
  int count = 0;
  for (std::size_t rank = 0; rank != nodes.size(); ++rank) {
    if (nodes[rank] != node)
      continue;
    if (count++ == kMost)
      return text + ",…";
    text += concat(text.empty() ? "" : ",", rank);
  }
  return text;
}

std::string describeNodes(std::span<const int64_t> nodes) {
  constexpr int64_t kMost = 8;
  const int64_t count =
      nodes.empty() ? 0 : *std::max_element(nodes.begin(), nodes.end()) + 1;
  std::string text;
  for (int64_t node = 0; node != std::min(count, kMost); ++node)
    text += concat(text.empty() ? "" : " | ", describeNode(nodes, node));
  return count > kMost ? text + " | …" : text;
}

std::string explainPlacement(std::span<const int64_t> nodes,
                             std::span<const std::string> hosts) {
  const std::vector<int> ranks = orderRanks(nodes);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const int before = ranks[i - 1], rank = ranks[i];
    if (nodes[before] == nodes[rank] && hosts[before] != hosts[rank])
      return concat(
          "the library is laid out for ranks ",
          describeNode(nodes, nodes[rank]), " on one node, and rank ", before,
          " runs on ", hosts[before], ", rank ", rank, " on ", hosts[rank],
          ": what they send takes other links than simulated; start ",
          std::ranges::count(nodes, nodes[rank]),
          " processes on each host, or compile with --cluster for these hosts");
  }
  return "";
}

std::string explainPlacement(std::span<const int64_t> nodes,
                             ControlPlane &control) {
  // Ranks of one process share its host.
  if (nodes.empty() || control.numLocalRanks() == control.size())
    return "";
  return explainPlacement(nodes, control.allGather(ownHostName()));
}

} // namespace optrt
