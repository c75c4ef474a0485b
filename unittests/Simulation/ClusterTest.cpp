//===- ClusterTest.cpp - Clusters and shared links ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Folding.h"
#include "SharedLinks.h"

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

constexpr Picoseconds kSecond = 1'000'000'000'000;

//===----------------------------------------------------------------------===//
// Flows
//===----------------------------------------------------------------------===//

TEST(SharedLinks, ShareFairly) {
  // Of the header's example: 40 bytes of a, and 4 of b and c each.
  SharedLinks links({10, 4});
  const LinkLoads a{{0, 1}}, b{{0, 1}, {1, 1}}, c{{1, 1}};
  links.add(0, {0, 40, &a});
  links.add(0, {1, 4, &b});
  links.add(0, {2, 4, &c});
  EXPECT_TRUE(links.advance().empty());
  EXPECT_THAT(links.advance(), ElementsAre(1, 2));
  EXPECT_EQ(links.getTime(), 2 * kSecond);
  // 16 of the 40 bytes have come; then 10 a second.
  EXPECT_THAT(links.advance(), ElementsAre(0));
  EXPECT_EQ(links.getTime(), 2 * kSecond + 24 * kSecond / 10);
  EXPECT_TRUE(links.isIdle());
  EXPECT_DOUBLE_EQ(links.getCarried(0), 44);
  EXPECT_DOUBLE_EQ(links.getCarried(1), 8);
}

TEST(SharedLinks, LaterFlowsSlowEarlierOnes) {
  SharedLinks links({10});
  const LinkLoads once{{0, 1}}, twice{{0, 2}};
  links.add(0, {0, 20, &once});
  links.add(kSecond, {1, 5, &twice});
  EXPECT_TRUE(links.advance().empty());
  EXPECT_TRUE(links.advance().empty());
  EXPECT_EQ(links.getTime(), kSecond);
  // Both at 10/3 a second: the second ends first, after 1.5 seconds.
  EXPECT_THAT(links.advance(), ElementsAre(1));
  EXPECT_NEAR(double(links.getTime()), 2.5 * double(kSecond), 1);
  EXPECT_THAT(links.advance(), ElementsAre(0));
  EXPECT_NEAR(double(links.getTime()), 3.0 * double(kSecond), 2);
}

TEST(SharedLinks, NothingToCarryTakesNoTime) {
  SharedLinks links({10});
  const LinkLoads none, one{{0, 1}};
  links.add(5, {0, 8, &none});
  links.add(5, {1, 0, &one});
  EXPECT_THAT(links.advance(), ElementsAre(0, 1));
  EXPECT_EQ(links.getTime(), 5);
}

/// What makes rates max-min fair: every flow has a full link on which no flow
/// is faster. At the first event all flows have begun, and their bytes until
/// the first of them ends tell the rates.
TEST(SharedLinks, EveryFlowIsLimitedByAFullLink) {
  for (unsigned seed = 0; seed != 200; ++seed) {
    std::mt19937 random(seed);
    const unsigned numLinks = 2 + random() % 6, numFlows = 1 + random() % 8;
    std::vector<double> capacities;
    for (unsigned link = 0; link != numLinks; ++link)
      capacities.push_back(1 + random() % 100);
    std::vector<LinkLoads> loads(numFlows);
    for (LinkLoads &one : loads)
      for (uint32_t link = 0; link != numLinks; ++link)
        if (random() % 2 || link == numLinks - 1)
          one.push_back({link, 0.25 * double(1 + random() % 8)});
    // As many links of their own tell the rate of each flow.
    for (unsigned flow = 0; flow != numFlows; ++flow) {
      capacities.push_back(1e9);
      loads[flow].push_back({numLinks + flow, 1});
    }
    SharedLinks links(capacities);
    for (unsigned flow = 0; flow != numFlows; ++flow)
      links.add(0, {flow, 1e6, &loads[flow]});
    ASSERT_TRUE(links.advance().empty());
    ASSERT_FALSE(links.advance().empty());
    const double seconds = double(links.getTime()) * 1e-12;
    auto getRate = [&](unsigned flow) {
      return links.getCarried(numLinks + flow) / seconds;
    };
    constexpr double kSlack = 1e-6;
    std::vector<bool> isFull(numLinks);
    for (unsigned link = 0; link != numLinks; ++link) {
      const double used = links.getCarried(link) / seconds;
      EXPECT_LE(used, capacities[link] * (1 + kSlack)) << seed;
      isFull[link] = used > capacities[link] * (1 - kSlack);
    }
    for (unsigned flow = 0; flow != numFlows; ++flow) {
      bool isLimited = false;
      for (const LinkLoad &load : loads[flow]) {
        if (load.link >= numLinks || !isFull[load.link])
          continue;
        bool isFastest = true;
        for (unsigned other = 0; other != numFlows; ++other)
          for (const LinkLoad &its : loads[other])
            isFastest &= its.link != load.link ||
                         getRate(other) <= getRate(flow) * (1 + kSlack);
        isLimited |= isFastest;
      }
      EXPECT_TRUE(isLimited) << "seed " << seed << ", flow " << flow;
    }
  }
}

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
  EXPECT_EQ(cluster->nodesPerSwitch, 4);
  EXPECT_EQ(cluster->oversubscription, 2);
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
  expect("}}}", "", "not valid JSON");
  EXPECT_THAT(messageOf("[]"), HasSubstr("cluster 'c.json': expected an "
                                         "object, found array; "
                                         "docs/what-if.md describes the file"));
  EXPECT_THAT(messageOf("{\"version\": 1}"), HasSubstr("no member \"nodes\""));
  EXPECT_EQ(loadCluster("h10").status().message(),
            "cluster 'h10': no such file, and no cluster that is known; known "
            "are a100, h100, h200, selene, frontera-rtx; did you mean 'h100'?");
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
  cluster.nodesPerSwitch = 2;
  cluster.oversubscription = 4;
  // Pairs across the switches, two at once on half a card's rate.
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {0});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / (2e9 / 4 / 2), 1e-9);
  write(Mesh({{"row", 2}, {"col", 2}}), CollectiveKind::AllGather, {1});
  EXPECT_NEAR(secondsOn(cluster), kBytes / 2 / 1e9, 1e-9);
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
    if (random() % 2) {
      cluster.nodesPerSwitch = 1 + random() % 3;
      cluster.oversubscription = 3;
    }
    if (seed % 3 == 0)
      cluster.pcie = {cluster.devicesPerNode / cluster.nicsPerNode, 2e9,
                      seed % 2 ? PcieTree::OnRoot : PcieTree::OnSwitches};
    WhatIf whatIf;
    if (random() % 2)
      whatIf.stragglers = {{int64_t(random() % mesh.numRanks()), 1.5}};
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
