//===- MessagesTest.cpp - Every message of a collective -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MessagePlan.h"

#include "optimus/Simulation/OneCollective.h"
#include "optimus/Simulation/Simulator.h"

#include <gtest/gtest.h>

#include <map>

using namespace optimus_simulation;
using namespace optimus_support::program;

namespace {

/// Seconds of one collective.
double simulateOne(CollectiveKind kind, int64_t ranks, int64_t bytes,
                   const Cluster &cluster, bool everyMessage) {
  const ProgramsT programs = makeOneCollective(kind, ranks, bytes);
  const TimedProgram timed(programs, *programs.targets.front(), {}, {});
  const auto result =
      simulate(timed, {kOneCollective}, {},
               {.cluster = &cluster, .everyMessage = everyMessage});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return double(result->getStep()) * 1e-12;
}

/// Every message over the closed form.
double compare(CollectiveKind kind, int64_t ranks, int64_t bytes,
               const Cluster &cluster) {
  return simulateOne(kind, ranks, bytes, cluster, true) /
         simulateOne(kind, ranks, bytes, cluster, false);
}

constexpr CollectiveKind kKinds[] = {
    CollectiveKind::Broadcast,     CollectiveKind::Reduce,
    CollectiveKind::AllReduce,     CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter, CollectiveKind::AllToAll};

/// Nodes without a protocol, and with one.
std::vector<Cluster> listClusters(int64_t devices) {
  Cluster plain;
  plain.devicesPerNode = plain.nicsPerNode = devices;
  plain.deviceLink = {2e11, 3e-6};
  plain.nic = {2e10, 8e-6};
  Cluster rings = plain;
  rings.protocols = {{"ring", Protocol::Ring, 5e-6, 1e-6, 4e-6, 0.9}};
  return {plain, rings};
}

/// Where all links of a group are alike and nobody else's.
TEST(Messages, AgreeWithTheClosedForm) {
  for (int64_t devices : {1, 16})
    for (const Cluster &cluster : listClusters(devices))
      for (CollectiveKind kind : kKinds)
        for (int64_t ranks : {2, 3, 8, 16}) {
          // Without a protocol the closed form has no steps of such an order.
          const bool halves = cluster.protocols.empty() && ranks > 3 &&
                              (kind == CollectiveKind::Broadcast ||
                               kind == CollectiveKind::Reduce);
          for (int64_t bytes : {1 << 10, 1 << 20, 1 << 30})
            if (!halves || bytes == 1 << 30) {
              EXPECT_NEAR(compare(kind, ranks, bytes, cluster), 1, 0.01)
                  << int(kind) << " of " << ranks << ", " << bytes << " bytes";
            }
        }
}

/// Over nodes of several devices: how many rings meet on a link of a node
/// depends on the time. In all-to-all a step within nodes waits for those
/// between them there.
TEST(Messages, AgreeOnNodes) {
  for (int64_t devices : {2, 4, 8})
    for (const Cluster &cluster : listClusters(devices))
      for (CollectiveKind kind : kKinds)
        for (int64_t ranks : {2 * devices, 4 * devices}) {
          const bool isChain = kind == CollectiveKind::Broadcast ||
                               kind == CollectiveKind::Reduce;
          // Without a protocol the closed form has no steps of such an order.
          const bool halves = cluster.protocols.empty() && isChain;
          for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 8)
            if (kind != CollectiveKind::AllToAll &&
                (!halves || bytes == 1 << 30)) {
              EXPECT_NEAR(compare(kind, ranks, bytes, cluster), 1, 0.01)
                  << int(kind) << " of " << ranks << " on nodes of " << devices
                  << ", " << bytes << " bytes";
            }
        }
  EXPECT_NEAR(
      compare(CollectiveKind::AllReduce, 8, 1 << 20, *loadCluster("h100")), 1,
      0.01);
}

/// Devices that share cards, and turns beyond the followed ones.
TEST(Messages, AgreeWhereDevicesShareCards) {
  for (Cluster &cluster : listClusters(4)) {
    cluster.nicsPerNode = 2;
    for (int64_t bytes = 1 << 14; bytes <= 1 << 24; bytes *= 4)
      for (int64_t ranks : {8, 32})
        EXPECT_NEAR(compare(CollectiveKind::AllReduce, ranks, bytes, cluster),
                    1, 0.01)
            << ranks << ", " << bytes << " bytes";
  }
}

/// Each member gets and sends as much as the algorithm has it, and each message
/// waits for others before it alone.
TEST(Messages, ArePlanned) {
  const ProgramsT programs =
      makeOneCollective(CollectiveKind::AllReduce, 8, 1 << 20);
  const TimedProgram timed(programs, *programs.targets.front(), {}, {});
  Cluster cluster;
  cluster.nic = {1e10, 1e-5};
  Network network(cluster, *placeRanks(cluster, timed.getMesh()), timed);
  CollectiveT one;
  one.kind = CollectiveKind::AllReduce;
  for (Protocol::Algorithm algorithm : {Protocol::Ring, Protocol::Tree}) {
    const MessagePlan plan =
        planMessages(network, network.listMembers(0, 0), one,
                     {"one", algorithm, 0, 0, 1e-6, 1}, 1 << 20, 1);
    std::map<uint32_t, double> sent, got;
    std::vector<uint32_t> begins(plan.size());
    for (size_t i = 0; i != plan.size(); ++i) {
      sent[plan[i].from] += plan[i].bytes;
      got[plan[i].to] += plan[i].bytes;
      for (const Message::Successor &next : plan[i].successors) {
        EXPECT_GT(next.message, i);
        ++begins[next.message];
      }
    }
    for (size_t i = 0; i != plan.size(); ++i)
      EXPECT_EQ(begins[i], plan[i].beginsAfter);
    for (uint32_t rank = 0; rank != 8; ++rank) {
      const double most = algorithm == Protocol::Ring ? 2 * 7.0 / 8 : 2;
      EXPECT_LE(sent[rank], most * (1 << 20));
      EXPECT_GE(sent[rank], most / 2 * (1 << 20));
      EXPECT_LE(got[rank], most * (1 << 20));
    }
  }
}

/// Steps are hidden behind the bytes of the slowest link: the last one is not.
TEST(Messages, OverlapStepsWithBytes) {
  const Cluster cluster = listClusters(4).front();
  constexpr int64_t kBytes = 1 << 24;
  const double seconds =
      simulateOne(CollectiveKind::AllGather, 8, kBytes, cluster, false);
  EXPECT_NEAR(seconds,
              7.0 / 8 * kBytes / (4 * cluster.nic.bytesPerSecond) +
                  cluster.nic.latency,
              1e-9);
}

} // namespace
