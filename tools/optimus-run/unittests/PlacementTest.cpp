//===- PlacementTest.cpp - Which host has which ranks ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tooling/Placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::ElementsAre;

namespace {

using Hosts = std::vector<std::string>;

/// A mesh row:2,col:4 in parts of 2x2.
const std::vector<int64_t> kTiles{0, 0, 1, 1, 0, 0, 1, 1};

TEST(Placement, OrdersRanksByNode) {
  EXPECT_THAT(orderRanks(kTiles), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(orderRanks({}), ElementsAre());
  EXPECT_EQ(describeNodes(kTiles), "0,1,4,5 | 2,3,6,7");
}

/// Launchers that fill one host after the other give nodes a host each.
TEST(Placement, IsAsLaunchersFillHosts) {
  const std::vector<int> order = orderRanks(kTiles);
  Hosts hosts(8);
  for (int process = 0; process != 8; ++process)
    hosts[order[process]] = process < 4 ? "a" : "b";
  EXPECT_EQ(explainPlacement(kTiles, hosts), "");
  // Nobody's messages take more links where nodes share a host.
  EXPECT_EQ(explainPlacement(kTiles, Hosts(8, "a")), "");
}

TEST(Placement, IsExplainedWhereANodeIsOnTwoHosts) {
  EXPECT_EQ(
      explainPlacement(kTiles, Hosts{"a", "a", "a", "a", "b", "b", "b", "b"}),
      "the library is laid out for ranks 0,1,4,5 on one node, and rank 1 "
      "runs on a, rank 4 on b: what they send takes other links than "
      "simulated; start 4 processes on each host, or compile with "
      "--cluster for these hosts");
}

} // namespace
