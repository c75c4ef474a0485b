//===- Cluster.cpp - Machines and what joins them ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Cluster.h"

#include "optimus/Prices/ReadMachineProfile.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/JsonPlace.h"
#include "optimus-support/NearestName.h"

#include <algorithm>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::JsonPlace;
using optimus_support::JsonText;
using optimus_support::Mesh;
using optimus_support::StatusOr;

namespace optimus_simulation {

//===----------------------------------------------------------------------===//
// From JSON
//===----------------------------------------------------------------------===//

static void readLink(const JsonPlace &place, ClusterLink &link) {
  place.refuseOthers({"bytes_per_s", "latency_s"});
  place["bytes_per_s"].require().readPositive(link.bytesPerSecond);
  place["latency_s"].require().readNumber(link.latency);
}

static void readNodes(const JsonPlace &place, Cluster &cluster) {
  place.refuseOthers({"devices", "nics"});
  place["devices"].require().readCount(cluster.devicesPerNode);
  place["nics"].readCount(cluster.nicsPerNode);
  if (cluster.devicesPerNode % cluster.nicsPerNode != 0)
    place["nics"].fail("expected a divisor of devices, which share the cards "
                       "evenly");
}

static void readSwitch(const JsonPlace &place, Cluster &cluster) {
  if (!place.exists())
    return;
  place.refuseOthers({"nodes", "oversubscription"});
  place["nodes"].require().readCount(cluster.nodesPerSwitch);
  place["oversubscription"].require().readPositive(cluster.oversubscription);
}

static void readPlacement(const JsonPlace &place, Cluster &cluster) {
  if (!place.exists())
    return;
  place.refuseOthers({"tile"});
  place["tile"].require().forEachMember(
      [&](const std::string &axis, const JsonPlace &extent) {
        cluster.tile.emplace_back(axis, 0);
        extent.readCount(cluster.tile.back().second);
      });
}

static void readCluster(const JsonPlace &root, Cluster &cluster) {
  root.refuseOthers(
      {"version", "nodes", "device_link", "nic", "switch", "placement"});
  if (!root["version"].isNumber(1))
    return root["version"].fail(
        "expected 1, the version that this program reads");
  readNodes(root["nodes"].require(), cluster);
  readLink(root["nic"].require(), cluster.nic);
  if (cluster.devicesPerNode > 1)
    readLink(root["device_link"].require(), cluster.deviceLink);
  else if (root["device_link"].exists())
    root["device_link"].fail("nothing joins the one device of a node");
  readSwitch(root["switch"], cluster);
  readPlacement(root["placement"], cluster);
}

StatusOr<Cluster> parseCluster(std::string_view json, const std::string &name) {
  JsonText text(json, name, "cluster");
  Cluster cluster;
  cluster.name = name;
  if (text.getMistake().empty())
    readCluster(text.getRoot(), cluster);
  if (!text.getMistake().empty())
    return invalidArgument(concat("cluster '", name, "': ", text.getMistake(),
                                  "; docs/what-if.md describes the file"));
  return cluster;
}

/// Nodes of the devices that the nearest links of a profile join.
static Cluster makeKnown(const std::string &name,
                         const optimus_prices::MachineProfile &machine) {
  const optimus_prices::LinkTier &near = machine.tiers.front(),
                                 &far = machine.tiers.back();
  Cluster cluster;
  cluster.name = name;
  cluster.devicesPerNode = cluster.nicsPerNode = near.ranks;
  cluster.deviceLink = {1 / near.beta, near.alpha};
  cluster.nic = {1 / far.beta, far.alpha};
  return cluster;
}

StatusOr<Cluster> loadCluster(const std::string &nameOrPath) {
  for (const char *gpu : {"a100", "h100", "h200"})
    if (nameOrPath == gpu) {
      OPTRT_ASSIGN_OR_RETURN(
          optimus_prices::MachineProfile machine,
          optimus_prices::loadMachineProfile(nameOrPath + "x8"));
      return makeKnown(nameOrPath, machine);
    }
  constexpr size_t kMostBytes = size_t(1) << 20;
  StatusOr<std::string> text =
      optimus_support::readInput(nameOrPath, kMostBytes);
  if (text.ok())
    return parseCluster(*text, nameOrPath);
  const bool mayBeName = nameOrPath.find_first_of("/.") == std::string::npos;
  return invalidArgument(concat(
      "cluster '", nameOrPath, "': ",
      mayBeName
          ? concat("no such file, and no cluster that is known; known are "
                   "a100, h100 and h200",
                   optimus_support::didYouMean(nameOrPath,
                                               {"a100", "h100", "h200"}))
          : text.status().message()));
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// The extents of a tile by the axes of a mesh: 1 of those not named.
static StatusOr<std::vector<int64_t>> getTile(const Cluster &cluster,
                                              const Mesh &mesh) {
  std::vector<int64_t> tile(mesh.numAxes(), 1);
  int64_t ranks = 1;
  for (const auto &[name, extent] : cluster.tile) {
    const std::optional<int> axis = mesh.findAxis(name);
    if (!axis || extent < 1 || mesh.axisSize(*axis) % extent != 0)
      return invalidArgument(
          concat("cluster '", cluster.name, "': expected a tile that divides ",
                 mesh.toString(), ", found ", name, ":", extent));
    tile[*axis] = extent;
    ranks *= extent;
  }
  if (ranks > cluster.devicesPerNode)
    return invalidArgument(concat("cluster '", cluster.name, "': a tile of ",
                                  ranks, " ranks does not fit a node of ",
                                  cluster.devicesPerNode, " devices"));
  return tile;
}

StatusOr<std::vector<ClusterPlace>> placeRanks(const Cluster &cluster,
                                               const Mesh &mesh) {
  std::vector<ClusterPlace> places(mesh.numRanks());
  if (cluster.tile.empty()) {
    for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
      places[rank] = {rank / cluster.devicesPerNode,
                      rank % cluster.devicesPerNode};
    return places;
  }
  OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> tile, getTile(cluster, mesh));
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
    for (int axis = 0; axis != mesh.numAxes(); ++axis) {
      const int64_t at = mesh.coordinate(rank, axis);
      ClusterPlace &place = places[rank];
      place.node =
          place.node * (mesh.axisSize(axis) / tile[axis]) + at / tile[axis];
      place.device = place.device * tile[axis] + at % tile[axis];
    }
  return places;
}

void changeNetwork(Cluster &cluster, const NetworkChange &change) {
  for (ClusterLink *link : {&cluster.deviceLink, &cluster.nic}) {
    link->bytesPerSecond *= change.bandwidth;
    link->latency *= change.latency;
  }
}

} // namespace optimus_simulation
