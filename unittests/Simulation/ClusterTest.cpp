//===- ClusterTest.cpp - Clusters -----------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Folding.h"

#include "optimus/Simulation/Simulator.h"

#include "optimus-testing/ProgramWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

using namespace optimus_simulation;
using namespace optimus_support::program;
using optimus_support::Mesh;
using optimus_support::StatusOr;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string messageOf(const std::string &json) {
  const StatusOr<Cluster> cluster = parseCluster(json, "c.json");
  return cluster.ok() ? "" : cluster.status().message();
}

constexpr const char *kWhole = R"({
  "version": 1,
  "nodes": {"devices": 4, "nics": 2},
  "device_link": {"bytes_per_s": 4e11, "latency_s": 5e-6},
  "nic": {"bytes_per_s": 5e10, "latency_s": 1e-5},
  "switch": {"nodes": 4, "oversubscription": 2},
  "placement": {"tile": {"row": 2, "col": 2}}})";

TEST(Cluster, IsRead) {
  const StatusOr<Cluster> cluster = parseCluster(kWhole, "c.json");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_EQ(cluster->devicesPerNode, 4);
  EXPECT_EQ(cluster->nicsPerNode, 2);
  EXPECT_EQ(cluster->deviceLink.bytesPerSecond, 4e11);
  EXPECT_EQ(cluster->nic.latency, 1e-5);
  EXPECT_EQ(cluster->switches.front().nodes, 4);
  EXPECT_EQ(cluster->switches.front().oversubscription, 2);
  EXPECT_THAT(cluster->tile,
              ElementsAre(testing::Pair("col", 2), testing::Pair("row", 2)));
}

TEST(Cluster, NamesWhatIsWrong) {
  auto expect = [](const char *what, const char *instead, const char *message) {
    std::string json = kWhole;
    const size_t at = json.find(what);
    ASSERT_NE(at, std::string::npos);
    EXPECT_THAT(messageOf(json.replace(at, strlen(what), instead)),
                HasSubstr(message));
  };
  expect("\"nics\"", "\"nic\"",
         "nodes: nothing is known of 'nic'; did you mean 'nics'?");
  expect("\"version\": 1", "\"version\": 2",
         "version: expected 1, the version that this program reads");
  expect("\"nics\": 2", "\"nics\": 3", "expected a divisor of devices");
  expect("5e10", "-1", "nic.bytes_per_s: expected a finite number from 0");
  expect("5e10", "0", "nic.bytes_per_s: expected more than 0");
  expect("5e10", "1e999", "nic.bytes_per_s: not valid JSON: number overflow");
  expect("\"nics\": 2", "\"nics\": 2, \"nics\": 1",
         "an object has the key \"nics\" twice");
  expect("\"devices\": 4, \"nics\": 2", "\"devices\": 1",
         "device_link: nothing joins the one device of a node");
  expect("\"oversubscription\"", "\"oversubscribed\"",
         "did you mean 'oversubscription'?");
  expect("{\"row\": 2, \"col\": 2}", "4", "placement.tile: expected an object");
  expect("\"placement\": {", "\"placement\": {\"devices\": [0, 1], ",
         "placement.devices: the tile places ranks already");
  expect("\"tile\": {\"row\": 2, \"col\": 2}", "",
         "placement: expected a tile, or the devices of ranks");
  auto expectBeside = [&](const std::string &field, const char *message) {
    expect("\"placement\"", (field + ", \"placement\"").c_str(), message);
  };
  expect("\"switch\": {\"nodes\": 4, \"oversubscription\": 2}",
         "\"switch\": [{\"nodes\": 4, \"oversubscription\": 2}, "
         "{\"nodes\": 6, \"oversubscription\": 2}]",
         "switch: expected levels from the nearest on");
  expectBeside(R"("sockets": {"devices": 3, "bytes_per_s": 1, "latency_s": 0})",
               "sockets.devices: expected a part of nodes.devices");
  expectBeside(R"("sockets": {"devices": 4, "bytes_per_s": 1, "latency_s": 0})",
               "sockets.devices: expected a part of nodes.devices");
  expectBeside(R"("sockets": {"devices": 1, "bytes_per_s": 1, "latency_s": 0},
                  "pcie": {"devices": 2, "bytes_per_s": 1, "nics": "root"})",
               "sockets.devices: expected a multiple of pcie.devices");
  auto expectCurve = [&](const std::string &points, const char *message) {
    expectBeside(R"("measured": [{"collective": "reduce", "ranks": 4,
                    "nodes": 2, "points": [)" +
                     points + "]}]",
                 message);
  };
  expectCurve(R"({"bytes": 1, "seconds": 1})",
              "measured[0].points: expected two points or more");
  expectCurve(
      R"({"bytes": 2, "seconds": 1}, {"bytes": 2, "seconds": 1})",
      "measured[0].points: expected two points or more, each of more bytes "
      "than the one before");
  expectCurve(R"({"bytes": 1, "seconds": 0}, {"bytes": 2, "seconds": 1})",
              "measured[0].points[0].seconds: expected more than 0");
  expectCurve(R"({"bytes": 1, "seconds": 1}, {"bytes": 2, "seconds": 1}]},
                 {"collective": "reduce", "ranks": 4, "nodes": 2, "points": [
                 {"bytes": 1, "seconds": 1}, {"bytes": 2, "seconds": 1})",
              "measured[1].collective: expected one curve for so many ranks on "
              "so many nodes, found two");
  expect("}}}", "", "not valid JSON");
  EXPECT_THAT(messageOf("[]"), HasSubstr("cluster 'c.json': expected an "
                                         "object, found array; "
                                         "docs/what-if.md describes the file"));
  EXPECT_THAT(messageOf("{\"version\": 1}"), HasSubstr("no member \"nodes\""));
  EXPECT_EQ(loadCluster("h10").status().message(),
            "cluster 'h10': no such file, and no known cluster; expected a100, "
            "h100, h200, selene or frontera-rtx; did you mean 'h100'?");
}

TEST(Cluster, PlacesTilesOnNodes) {
  StatusOr<Cluster> cluster = parseCluster(kWhole, "c.json");
  ASSERT_TRUE(cluster.ok());
  const Mesh mesh({{"row", 4}, {"col", 4}});
  auto places = placeRanks(*cluster, mesh);
  ASSERT_TRUE(places.ok()) << places.status().message();
  std::vector<int64_t> nodes;
  for (const ClusterPlace &place : *places)
    nodes.push_back(place.node);
  EXPECT_THAT(nodes,
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3));
  EXPECT_EQ((*places)[5].device, 3);
  EXPECT_THAT(
      placeRanks(*cluster, Mesh({{"row", 3}, {"col", 4}})).status().message(),
      HasSubstr("expected a tile that divides row:3,col:4, found "
                "row:2"));
  cluster->tile = {{"row", 2}, {"col", 4}};
  EXPECT_THAT(placeRanks(*cluster, mesh).status().message(),
              HasSubstr("a tile of 8 ranks does not fit a node of 4 devices"));
  cluster->tile.clear();
  places = placeRanks(*cluster, mesh);
  EXPECT_EQ((*places)[5].node, 1);
  EXPECT_EQ((*places)[5].device, 1);
}

TEST(Cluster, HasTooFewNodes) {
  Cluster cluster;
  cluster.name = "c.json";
  cluster.devicesPerNode = 4;
  cluster.numNodes = 4;
  EXPECT_TRUE(placeRanks(cluster, Mesh({{"row", 4}, {"col", 4}})).ok());
  const char *message = "cluster 'c.json': expected a mesh on at most 4 nodes "
                        "of 4 devices, found row:4,col:5, which takes 5";
  const Mesh wide({{"row", 4}, {"col", 5}});
  EXPECT_EQ(placeRanks(cluster, wide).status().message(), message);
  cluster.tile = {{"row", 4}};
  EXPECT_EQ(placeRanks(cluster, wide).status().message(), message);
  cluster.tile.clear();
  cluster.devices = {3, 19};
  EXPECT_THAT(placeRanks(cluster, Mesh({{"x", 2}})).status().message(),
              HasSubstr("which takes 5"));
}

/// Parts of a mesh that fill nodes, or as much of them as any part does.
TEST(Cluster, ListsTiles) {
  Cluster cluster;
  cluster.devicesPerNode = 8;
  auto list = [&](const Mesh &mesh) {
    std::vector<std::string> texts;
    for (const Tile &tile : listTiles(cluster, mesh)) {
      texts.push_back(printTile(tile));
      EXPECT_EQ(*parseTile(texts.back()), tile);
      Cluster placed = cluster;
      placed.tile = tile;
      EXPECT_TRUE(placeRanks(placed, mesh).ok());
    }
    return texts;
  };
  EXPECT_THAT(list(Mesh({{"row", 4}, {"col", 8}})),
              ElementsAre("row:1,col:8", "row:2,col:4", "row:4,col:2"));
  EXPECT_THAT(list(Mesh({{"row", 3}, {"col", 3}})),
              ElementsAre("row:1,col:3", "row:3,col:1"));
  EXPECT_THAT(list(Mesh({{"x", 2}})), ElementsAre("x:2"));
}

TEST(Cluster, ListsPlacements) {
  Cluster cluster;
  cluster.devicesPerNode = 4;
  auto count = [&](const Mesh &mesh) {
    return listPlacements(cluster, mesh).size();
  };
  EXPECT_EQ(count(Mesh({{"row", 4}, {"col", 4}})), 3u);
  // No part of it has four ranks, those that follow each other do.
  EXPECT_EQ(count(Mesh({{"row", 3}, {"col", 3}})), 3u);
  EXPECT_TRUE(listPlacements(cluster, Mesh({{"x", 9}})).back().empty());
  EXPECT_EQ(count(Mesh({{"row", 1}, {"col", 2}})), 1u);
  cluster.tile = {{"row", 2}};
  EXPECT_THAT(listPlacements(cluster, Mesh({{"row", 2}})),
              ElementsAre(cluster.tile));
  cluster = {};
  EXPECT_TRUE(listPlacements(cluster, Mesh({{"x", 4}})).front().empty());
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// One collective of 2^20 bytes, the whole tensor, on all axes of a mesh; a
/// rank waits for it at once.
class ClusterSimulation : public testing::Test {
protected:
  static constexpr double kBytes = 1 << 20;

  void write(Mesh mesh, CollectiveKind kind, std::vector<uint32_t> axes) {
    int64_t members = 1;
    for (uint32_t axis : axes)
      members *= mesh.axisSize(int(axis));
    ProgramWriter programs{std::move(mesh)};
    FunctionWriter f = programs.function("f");
    const int64_t whole = (1 << 20) / 4;
    const bool isBlock = kind == CollectiveKind::AllGather;
    const int64_t inner = isBlock ? whole / members : whole;
    CollectiveT one;
    one.kind = kind;
    one.axes = std::move(axes);
    one.outer = 1;
    one.inner = one.src_ld = inner;
    one.dst_ld = whole;
    f.wait(f.collective(std::move(one), f.arena(ElementType::F32, inner),
                        f.arena(ElementType::F32, whole)));
    finished = programs.finish();
  }
  Simulation run(const Cluster *cluster,
                 const optimus_prices::MachineProfile &machine = {}) {
    timed = std::make_unique<TimedProgram>(finished, *finished.targets.front(),
                                           machine, WhatIf());
    StatusOr<Simulation> result =
        simulate(*timed, {"f"}, WhatIf(), {.cluster = cluster});
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *result;
  }
  double secondsOn(const Cluster &cluster) {
    return double(run(&cluster).getStep()) * 1e-12;
  }

  ProgramsT finished;
  std::unique_ptr<TimedProgram> timed;
};

/// On nodes of one device it is what a profile's link says.
TEST_F(ClusterSimulation, LinksOfOneRankAreAsPriced) {
  optimus_prices::MachineProfile machine;
  Cluster cluster;
  cluster.nic = {1 / machine.linkBeta, machine.linkAlpha};
  for (CollectiveKind kind :
       {CollectiveKind::Broadcast, CollectiveKind::Reduce,
        CollectiveKind::AllReduce, CollectiveKind::AllGather})
    for (int64_t ranks : {2, 4, 8}) {
      write(Mesh({{"x", ranks}}), kind, {0});
      EXPECT_NEAR(double(run(&cluster).getStep()),
                  double(run(nullptr, machine).getStep()), 2)
          << int(kind) << " of " << ranks;
    }
}

/// Two axes of 2×2 on one card a node: groups of a column cross the card at
/// once, and have half of it each.
TEST_F(ClusterSimulation, GroupsShareACard) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {1e12, 0};
  cluster.nic = {1e9, 0};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), 2 * kBytes / 2 / 1e9, 1e-9);
  const Simulation shared = run(&cluster);
  EXPECT_EQ(shared.exposures.front().shared, shared.getStep() / 2);
  EXPECT_EQ(shared.links.front().name, "out of card 0 of node 0");
  EXPECT_NEAR(shared.links.front().share, 1, 1e-6);
  cluster.nicsPerNode = 2;
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
  // On the other axis nothing leaves a node.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e12, 1e-9);
  EXPECT_EQ(run(&cluster).exposures.front().shared, 0);
}

/// A group of all ranks forms as many rings as a node has devices, and each
/// leaves it by another card.
TEST_F(ClusterSimulation, RingsUseAllCards) {
  Cluster cluster;
  cluster.devicesPerNode = cluster.nicsPerNode = 4;
  cluster.deviceLink = {1e12, 0};
  cluster.nic = {1e9, 0};
  write(Mesh({{"x", 8}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes * 7 / 8 / 4e9, 1e-9);
  cluster.nicsPerNode = 1;
  EXPECT_NEAR(secondsOn(cluster), kBytes * 7 / 8 / 1e9, 1e-9);
}

TEST_F(ClusterSimulation, SwitchesMayBeOversubscribed) {
  Cluster cluster;
  cluster.nic = {1e9, 0};
  cluster.switches = {{2, 4}};
  // Pairs across the switches, two at once on half a card's rate.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / (2e9 / 4 / 2), 1e-9);
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
}

/// Two levels: near neighbours pass the first alone.
TEST_F(ClusterSimulation, SwitchesHaveLevels) {
  Cluster cluster;
  cluster.nic = {1e9, 0};
  cluster.switches = {{1, 2}, {2, 8}};
  // Nodes 0 and 2 are on two pairs, and so are 1 and 3.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / (2e9 / 8 / 2), 1e-9);
  EXPECT_EQ(run(&cluster).links.front().name, "out of switch 0 of level 2");
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 5e8, 1e-9);
  EXPECT_EQ(run(&cluster).links.front().name, "out of switch 0 of level 1");
}

TEST_F(ClusterSimulation, LinksMayHaveTwoRates) {
  Cluster cluster;
  cluster.nic = {1e9, 0};
  cluster.nic.inBytesPerSecond = 2.5e8;
  write(Mesh({{"x", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 2.5e8, 1e-9);
  EXPECT_EQ(run(&cluster).links.front().name, "into card 0 of node 0");
}

/// What crosses the root of a PCIe tree shares the links of its switches.
TEST_F(ClusterSimulation, DevicesShareAPcieTree) {
  Cluster cluster;
  cluster.devicesPerNode = 4;
  cluster.deviceLink = {1e10, 0};
  cluster.nic = {1e10, 0};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e10, 1e-9);
  cluster.pcie = {2, 1e10, PcieTree::OnSwitches};
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 5e9, 1e-9);
  EXPECT_EQ(run(&cluster).links.front().name, "out of PCIe switch 0 of node 0");
  // On the other axis both are on one switch.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e10, 1e-9);
}

/// A device's own link carries what goes to cards, too; and a card on another
/// device's switch is reached by way of the root.
TEST_F(ClusterSimulation, CardsArePartOfAPcieTree) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {4e9, 0};
  cluster.nic = {1e10, 0};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 5e9, 1e-9);
  cluster.pcie = {1, 1e12, PcieTree::OnRoot};
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 4e9, 1e-9);
  cluster.pcie.bytesPerSecond = 1e9;
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
  auto hasLink = [&](const std::string &name) {
    const Simulation simulation = run(&cluster);
    return std::any_of(simulation.links.begin(), simulation.links.end(),
                       [&](const LinkUse &use) { return use.name == name; });
  };
  EXPECT_TRUE(hasLink("out of PCIe switch 0 of node 0"));
  cluster.pcie.cards = PcieTree::OnSwitches;
  // The second device's alone: out of its switch, into that of the card.
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
  EXPECT_TRUE(hasLink("out of PCIe switch 1 of node 0"));
  EXPECT_TRUE(hasLink("into PCIe switch 0 of node 0"));
  cluster.nicsPerNode = 2;
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 4e9, 1e-9);
}

/// Rings over four devices on two sockets pass between these twice.
TEST_F(ClusterSimulation, SocketsAreJoined) {
  Cluster cluster;
  cluster.devicesPerNode = 4;
  cluster.deviceLink = {1e10, 0};
  cluster.nic = {1e10, 0};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  const double plain = secondsOn(cluster);
  cluster.sockets = {2, {1e9, 1e-3}};
  // Both columns pass the link, each with half of the bytes.
  EXPECT_NEAR(secondsOn(cluster), 1e-3 + kBytes / 1e9, 1e-9);
  EXPECT_EQ(run(&cluster).links.front().name, "out of socket 0 of node 0");
  // Rows are on a socket each.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), plain, 1e-9);
  // Around a ring two of four steps pass the link, one in each direction.
  write(Mesh({{"x", 4}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), 1.5e-3 + 0.75 * kBytes / 1e9, 1e-9);
}

/// A node's one card is on its first socket.
TEST_F(ClusterSimulation, CardsAreOnSockets) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {1e12, 0};
  cluster.nic = {1e10, 0};
  cluster.sockets = {1, {1e9, 0}};
  // Of the two columns the second one is on the far socket of both nodes.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
  cluster.nicsPerNode = 2;
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e10, 1e-9);
}

/// Ranks 0 and 2 on one node by a list, 0 and 1 without.
TEST_F(ClusterSimulation, RanksMayLieByAList) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {1e12, 0};
  cluster.nic = {1e9, 0};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  const double near = kBytes / 2 / 1e12, far = kBytes / 2 / 5e8;
  EXPECT_NEAR(secondsOn(cluster), near, 1e-9);
  cluster.devices = {0, 2, 1, 3};
  EXPECT_NEAR(secondsOn(cluster), far, 1e-9);
  // Devices may stay empty.
  cluster.devices = {4, 5, 11, 10};
  EXPECT_NEAR(secondsOn(cluster), near, 1e-9);
  for (const std::vector<int64_t> &wrong :
       {std::vector<int64_t>{0, 1, 2}, {0, 1, 2, 2}}) {
    cluster.devices = wrong;
    EXPECT_THAT(
        placeRanks(cluster, timed->getMesh()).status().message(),
        HasSubstr("expected a device of its own for each of the 4 ranks "
                  "of row:2,col:2, found 3 devices"));
  }
}

/// What was measured among as many ranks on as many nodes counts, and nothing
/// else.
TEST_F(ClusterSimulation, CurvesAreTaken) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {1e10, 0};
  cluster.nic = {1e9, 0};
  optimus_prices::CommunicationProfile profile;
  profile.collectives = {{.backend = "local",
                          .collective = "all_gather",
                          .ranks = 4,
                          .alpha = 0,
                          .beta = 0,
                          .points = {{0, 1e-3}, {2 * kBytes, 9e-3}},
                          .machines = 2}};
  takeMeasured(cluster, profile);
  write(Mesh({{"x", 4}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), 5e-3, 1e-9);
  const Simulation result = run(&cluster);
  EXPECT_EQ(result.protocols.front().name, "measured");
  EXPECT_EQ(simulate(*timed, {"f"}, WhatIf(),
                     {.cluster = &cluster, .everyMessage = true})
                .status()
                .message(),
            "expected a cluster without measured collectives, since every "
            "message is simulated");
  // Faster than the links say, too.
  cluster.measured.front().points = {{0, 1e-6}, {2 * kBytes, 1e-6}};
  EXPECT_NEAR(secondsOn(cluster), 1e-6, 1e-11);
  cluster.measured.front().machines = 1;
  EXPECT_NEAR(secondsOn(cluster), 0.75 * kBytes / 1e9, 1e-7);
  write(Mesh({{"x", 4}}), CollectiveKind::AllReduce, {0});
  cluster.measured.front().machines = 2;
  EXPECT_NEAR(secondsOn(cluster), 1.5 * kBytes / 1e9, 1e-7);
  // Of kinds that the cluster has curves of, the profile's do not count.
  takeMeasured(cluster, profile);
  EXPECT_EQ(cluster.measured.size(), 1u);
}

/// Two groups of two nodes each on the cards of both: their bytes share, what
/// is beyond them does not.
TEST_F(ClusterSimulation, CurvesShareLinks) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.deviceLink = {1e12, 0};
  cluster.nic = {1e9, 0};
  cluster.measured = {{.backend = "",
                       .collective = "all_gather",
                       .ranks = 2,
                       .alpha = 0,
                       .beta = 0,
                       .points = {{0, 2e-3}, {2 * kBytes, 2e-3}},
                       .machines = 2}};
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), 2e-3 + kBytes / 2 / 1e9, 1e-8);
}

/// A function that starts collectives on both axes, computes, and waits.
class FoldingOnClusters : public testing::Test {
protected:
  void write(const Mesh &mesh, std::mt19937 &random) {
    constexpr CollectiveKind kKinds[] = {
        CollectiveKind::Broadcast, CollectiveKind::Reduce,
        CollectiveKind::AllReduce, CollectiveKind::AllGather,
        CollectiveKind::AllToAll};
    ProgramWriter programs{mesh};
    FunctionWriter f = programs.function("f");
    const View arena = f.arena(ElementType::F32, 1 << 16);
    std::vector<uint32_t> open;
    for (int step = 0; step != 12; ++step) {
      const uint32_t axis = random() % 2;
      const int64_t members = mesh.axisSize(int(axis));
      CollectiveT one;
      one.kind = kKinds[random() % std::size(kKinds)];
      one.axes = {axis};
      one.root = one.kind == CollectiveKind::Broadcast ||
                         one.kind == CollectiveKind::Reduce
                     ? int64_t(random() % members)
                     : 0;
      one.outer = 1;
      const int64_t block = 64 * (1 + random() % 16);
      one.inner = one.src_ld = block;
      one.dst_ld = block * members;
      if (one.kind == CollectiveKind::AllToAll)
        one.inner = one.src_ld = one.dst_ld = block * members;
      open.push_back(f.collective(std::move(one), arena, arena));
      f.fill(arena);
      if (random() % 2) {
        f.wait(open.front());
        open.erase(open.begin());
      }
    }
    for (uint32_t command : open)
      f.wait(command);
    finished = programs.finish();
    timed = std::make_unique<TimedProgram>(finished, *finished.targets.front(),
                                           optimus_prices::MachineProfile(),
                                           WhatIf());
  }

  void retime(const WhatIf &whatIf, bool slows) {
    optimus_prices::MachineProfile machine;
    if (slows)
      machine.interference = {.source = "nobody",
                              .computing = {{"copy", 1.25}},
                              .collectives = {{"all_gather", 1.5}}};
    timed = std::make_unique<TimedProgram>(finished, *finished.targets.front(),
                                           machine, whatIf);
  }

  size_t countActors(const Cluster &cluster, const WhatIf &whatIf) {
    Network network(cluster, *placeRanks(cluster, timed->getMesh()), *timed);
    return Folding(*timed, whatIf, true, &network).getNumActors();
  }

  ProgramsT finished;
  std::unique_ptr<TimedProgram> timed;
};

/// To the bit, whatever differs.
TEST_F(FoldingOnClusters, FoldedIsUnfolded) {
  for (unsigned seed = 0; seed != 60; ++seed) {
    std::mt19937 random(seed);
    const int64_t sizes[] = {1, 2, 4, 6, 16, 32};
    const Mesh mesh(
        {{"row", sizes[random() % 5]}, {"col", sizes[random() % 6]}});
    write(mesh, random);
    Cluster cluster;
    cluster.nicsPerNode = 1 + random() % 2;
    cluster.devicesPerNode = cluster.nicsPerNode * (1 + random() % 3);
    cluster.deviceLink = {1e9 * double(1 + random() % 9), 1e-6};
    cluster.nic = {1e8 * double(1 + random() % 9), 1e-5};
    if (random() % 2)
      cluster.switches = {{int64_t(1 + random() % 3), 3}};
    if (seed % 3 == 1 && !cluster.switches.empty())
      cluster.switches.push_back({2 * cluster.switches.front().nodes, 5});
    if (seed % 4 == 2)
      cluster.nic.inBytesPerSecond = 0.5 * cluster.nic.bytesPerSecond;
    if (seed % 4 == 1 && cluster.devicesPerNode > cluster.nicsPerNode)
      cluster.sockets = {cluster.nicsPerNode, {1e9, 2e-6}};
    else if (seed % 3 == 0)
      cluster.pcie = {cluster.devicesPerNode / cluster.nicsPerNode, 2e9,
                      seed % 2 ? PcieTree::OnRoot : PcieTree::OnSwitches};
    WhatIf whatIf;
    if (random() % 2)
      whatIf.stragglers = {{int64_t(random() % mesh.numRanks()), 1.5}};
    if (seed % 5 == 0)
      whatIf.priorities = {{"*"}};
    retime(whatIf, /*slows=*/seed % 2);
    auto run = [&](bool fold) {
      return *simulate(*timed, {"f"}, whatIf,
                       {.cluster = &cluster, .fold = fold});
    };
    const Simulation folded = run(true), whole = run(false);
    for (int64_t rank = 0; rank != mesh.numRanks(); ++rank) {
      EXPECT_EQ(folded.ranks[rank].end, whole.ranks[rank].end) << seed;
      EXPECT_EQ(folded.ranks[rank].exposed, whole.ranks[rank].exposed);
    }
    EXPECT_EQ(folded.slowest, whole.slowest);
    ASSERT_EQ(folded.links.size(), whole.links.size());
    for (size_t i = 0; i != whole.links.size(); ++i) {
      EXPECT_EQ(folded.links[i].name, whole.links[i].name);
      EXPECT_EQ(folded.links[i].share, whole.links[i].share);
    }
    for (size_t i = 0; i != whole.exposures.size(); ++i)
      EXPECT_EQ(folded.exposures[i].shared, whole.exposures[i].shared);
    ASSERT_EQ(folded.criticalPath.size(), whole.criticalPath.size());
    for (size_t i = 0; i != whole.criticalPath.size(); ++i)
      EXPECT_EQ(folded.criticalPath[i].seconds, whole.criticalPath[i].seconds);
  }
}

/// Large groups on regular nodes are alike; a late rank tells them apart.
TEST_F(FoldingOnClusters, LargeMeshesAreFewActors) {
  std::mt19937 random(1);
  write(Mesh({{"row", 32}, {"col", 32}}), random);
  Cluster cluster;
  cluster.devicesPerNode = cluster.nicsPerNode = 8;
  cluster.deviceLink = {1e11, 1e-6};
  cluster.nic = {1e10, 1e-5};
  EXPECT_EQ(countActors(cluster, {}), 1u);
  cluster.tile = {{"row", 2}, {"col", 4}};
  EXPECT_EQ(countActors(cluster, {}), 1u);
  EXPECT_GT(countActors(cluster, {.stragglers = {{3, 2}}}), 3u);
}

} // namespace
