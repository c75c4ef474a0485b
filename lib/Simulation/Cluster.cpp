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
#include "optimus-support/MeshTiles.h"
#include "optimus-support/NearestName.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::Mesh;
using optimus_support::StatusOr;

namespace optimus_simulation {

std::vector<Protocol> getNcclProtocols(bool hasSwitch) {
  std::vector<Protocol> protocols{
      {"ring LL", Protocol::Ring, 6.6e-6, 0.6e-6, 2.7e-6, 0.5},
      {"ring LL128", Protocol::Ring, 14e-6, 1.9e-6, 4e-6, 0.92},
      {"ring Simple", Protocol::Ring, 8.4e-6, 3.4e-6, 14e-6, 1},
      {"tree LL", Protocol::Tree, 6.8e-6, 0.6e-6, 5e-6, 1 / 3.8},
      {"tree LL128", Protocol::Tree, 14e-6, 1.25e-6, 8.5e-6, 0.92},
      {"tree Simple", Protocol::Tree, 8.4e-6, 4e-6, 14e-6, 1}};
  // Each device sends all of it once, and links reach 450 GB/s where rings
  // reach 370: of these 0.74, and five of six parts.
  constexpr double kRate = 450.0 / 370 * 0.74 * 5 / 6;
  if (hasSwitch)
    protocols.push_back({"NVLS", Protocol::Switch, 25e-6, 0, 0, kRate});
  return protocols;
}

/// In a node LL carries at most 87.7 GB/s of an A100's 235 and 141 of an H100's
/// 370; between two nodes 22.5 of 188 and 45 of 376. Trees do not come before
/// rings in a node.
static void limitLL(std::vector<Protocol> &protocols) {
  for (Protocol &one : protocols)
    if (one.name == "ring LL") {
      one.rate = 0.375;
      one.nicRate = 0.12;
    } else if (one.name == "tree LL") {
      one.rate = 0.12;
    }
}

/// Nodes of the devices that the nearest links of a profile join.
static Cluster makeKnown(const std::string &name, const std::string &gpu,
                         const optimus_prices::MachineProfile &machine) {
  const optimus_prices::LinkTier &near = machine.tiers.front(),
                                 &far = machine.tiers.back();
  Cluster cluster;
  cluster.name = name;
  cluster.devicesPerNode = cluster.nicsPerNode = near.ranks;
  cluster.machineProfile = concat(gpu, "x", near.ranks);
  cluster.deviceLink = {1 / near.beta, near.alpha};
  cluster.nic = {1 / far.beta, far.alpha};
  cluster.protocols = getNcclProtocols(/*hasSwitch=*/gpu != "a100");
  limitLL(cluster.protocols);
  return cluster;
}

namespace {
struct KnownCluster {
  const char *name;
  /// Of the profile of its nodes; null where a file describes them.
  const char *gpu;
};
} // namespace

/// Selene has nodes of eight A100 with as many cards of 200 Gb/s.
static constexpr KnownCluster kClusters[] = {{"a100", "a100"},
                                             {"h100", "h100"},
                                             {"h200", "h200"},
                                             {"selene", "a100"},
                                             {"frontera-rtx", nullptr}};

/// Four Quadro RTX 5000 on ports of their own, which reach 10 GB/s. The card
/// has the rate that the published times of bench/results/published.md tell,
/// since nobody states it.
static constexpr const char *kFronteraRtx = R"({
  "version": 1,
  "nodes": {"devices": 4, "nics": 1},
  "device_link": {"bytes_per_s": 1e10, "latency_s": 5e-6},
  "nic": {"bytes_per_s": 5.1e9, "latency_s": 5e-6}})";

std::vector<std::string> listKnownClusters() {
  std::vector<std::string> names;
  for (const KnownCluster &one : kClusters)
    names.emplace_back(one.name);
  return names;
}

std::string describeKnownClusters() {
  std::string text;
  const std::vector<std::string> names = listKnownClusters();
  for (size_t i = 0; i != names.size(); ++i)
    text += concat(i == 0                  ? ""
                   : i + 1 == names.size() ? " or "
                                           : ", ",
                   names[i]);
  return text;
}

StatusOr<Cluster> loadCluster(const std::string &nameOrPath) {
  for (const KnownCluster &one : kClusters) {
    if (nameOrPath != one.name)
      continue;
    if (!one.gpu)
      return parseCluster(kFronteraRtx, nameOrPath);
    OPTRT_ASSIGN_OR_RETURN(
        optimus_prices::MachineProfile machine,
        optimus_prices::loadMachineProfile(concat(one.gpu, "x8")));
    return makeKnown(nameOrPath, one.gpu, machine);
  }
  constexpr size_t kMostBytes = size_t(1) << 20;
  StatusOr<std::string> text =
      optimus_support::readInput(nameOrPath, kMostBytes);
  if (text.ok()) {
    auto cluster = parseCluster(*text, nameOrPath);
    // A file's own files are where it is.
    if (cluster.ok() && !cluster->machineProfile.empty() &&
        !optimus_prices::isKnownProfile(cluster->machineProfile))
      cluster->machineProfile = std::filesystem::path(nameOrPath)
                                    .replace_filename(cluster->machineProfile)
                                    .string();
    return cluster;
  }
  const bool mayBeName = nameOrPath.find_first_of("/.") == std::string::npos;
  return invalidArgument(concat(
      "cluster '", nameOrPath, "': ",
      mayBeName
          ? concat("no such file, and no known cluster; expected ",
                   describeKnownClusters(),
                   optimus_support::didYouMean(nameOrPath, listKnownClusters()))
          : text.status().message()));
}

StatusOr<std::string> findDevices(const Cluster &cluster, bool areGpus) {
  const std::string &name = cluster.machineProfile;
  if (name.empty())
    return std::string();
  auto loaded = optimus_prices::loadMachineProfile(name);
  if (!loaded.ok())
    return loaded.status().withContext("nodes.machine_profile");
  return loaded->gpu.has_value() == areGpus ? name : std::string();
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

/// Each rank on the device that a list has for it.
static StatusOr<std::vector<ClusterPlace>> placeByList(const Cluster &cluster,
                                                       const Mesh &mesh) {
  const std::set<int64_t> different(cluster.devices.begin(),
                                    cluster.devices.end());
  if (int64_t(cluster.devices.size()) != mesh.numRanks() ||
      different.size() != cluster.devices.size())
    return invalidArgument(concat(
        "cluster '", cluster.name,
        "': expected a device of its own for each "
        "of the ",
        mesh.numRanks(), " ranks of ", mesh.toString(), ", found ",
        different.size(), " devices for ", cluster.devices.size(), " ranks"));
  std::vector<ClusterPlace> places;
  for (int64_t device : cluster.devices)
    places.push_back(
        {device / cluster.devicesPerNode, device % cluster.devicesPerNode});
  return places;
}

/// Ranks that follow each other on nodes.
static std::vector<ClusterPlace> placeInOrder(const Cluster &cluster,
                                              const Mesh &mesh) {
  std::vector<ClusterPlace> places;
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
    places.push_back(
        {rank / cluster.devicesPerNode, rank % cluster.devicesPerNode});
  return places;
}

static StatusOr<std::vector<ClusterPlace>> placeByTile(const Cluster &cluster,
                                                       const Mesh &mesh) {
  std::vector<ClusterPlace> places(mesh.numRanks());
  OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> tile, getTile(cluster, mesh));
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank) {
    const auto place = optimus_support::placeInTile(mesh, tile, rank);
    places[rank] = {place.tile, place.inside};
  }
  return places;
}

StatusOr<std::vector<ClusterPlace>> placeRanks(const Cluster &cluster,
                                               const Mesh &mesh) {
  std::vector<ClusterPlace> places;
  if (!cluster.devices.empty()) {
    OPTRT_ASSIGN_OR_RETURN(places, placeByList(cluster, mesh));
  } else if (!cluster.tile.empty()) {
    OPTRT_ASSIGN_OR_RETURN(places, placeByTile(cluster, mesh));
  } else {
    places = placeInOrder(cluster, mesh);
  }
  int64_t nodes = 0;
  for (const ClusterPlace &place : places)
    nodes = std::max(nodes, place.node + 1);
  if (cluster.numNodes > 0 && nodes > cluster.numNodes)
    return invalidArgument(
        concat("cluster '", cluster.name, "': expected a mesh on at most ",
               cluster.numNodes, " nodes of ", cluster.devicesPerNode,
               " devices, found ", mesh.toString(), ", which takes ", nodes));
  return places;
}

std::string printTile(const Tile &tile) {
  std::string text;
  for (const auto &[axis, extent] : tile)
    text += concat(text.empty() ? "" : ",", axis, ":", extent);
  return text;
}

std::vector<Tile> listTiles(const Cluster &cluster, const Mesh &mesh) {
  int64_t most = 0;
  std::vector<Tile> tiles;
  // Axis by axis, all that fit so far.
  std::vector<std::pair<Tile, int64_t>> open{{{}, 1}};
  for (int axis = 0; axis != mesh.numAxes(); ++axis) {
    const int64_t size = mesh.axisSize(axis);
    for (const auto &[tile, ranks] : std::exchange(open, {}))
      for (int64_t extent = 1;
           extent <= size && ranks * extent <= cluster.devicesPerNode; ++extent)
        if (size % extent == 0) {
          open.emplace_back(tile, ranks * extent);
          open.back().first.emplace_back(mesh.axes()[axis].name, extent);
        }
  }
  for (const auto &[tile, ranks] : open)
    most = std::max(most, ranks);
  for (auto &[tile, ranks] : open)
    if (ranks == most)
      tiles.push_back(std::move(tile));
  return tiles;
}

std::vector<Tile> listPlacements(const Cluster &cluster, const Mesh &mesh) {
  if (!cluster.tile.empty() || !cluster.devices.empty() ||
      cluster.devicesPerNode == 1)
    return {cluster.tile};
  std::vector<Tile> tiles = listTiles(cluster, mesh);
  int64_t ranks = 1;
  for (const auto &[axis, extent] : tiles.front())
    ranks *= extent;
  if (ranks < std::min(cluster.devicesPerNode, mesh.numRanks()))
    tiles.emplace_back();
  return tiles;
}

StatusOr<Tile> parseTile(const std::string &text) {
  Tile tile;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t colon = part.find(':');
    int64_t extent = 0;
    const char *last = part.data() + part.size();
    const auto read =
        colon == std::string::npos
            ? std::from_chars_result{part.data(), std::errc::invalid_argument}
            : std::from_chars(part.data() + colon + 1, last, extent);
    if (read.ec != std::errc() || read.ptr != last || extent < 1 || colon == 0)
      return invalidArgument(
          concat("expected AXIS:EXTENT, several with commas between, found '",
                 text, "'"));
    tile.emplace_back(part.substr(0, colon), extent);
    at = end + 1;
  }
  return tile;
}

void takeMeasured(Cluster &cluster,
                  const optimus_prices::CommunicationProfile &profile) {
  const std::vector<optimus_prices::CollectiveProfile> own = cluster.measured;
  for (const optimus_prices::CollectiveProfile &one : profile.collectives)
    if (one.backend == profile.backend && one.machines > 0 &&
        one.points.size() > 1 &&
        std::ranges::none_of(own, [&](const auto &other) {
          return other.collective == one.collective;
        }))
      cluster.measured.push_back(one);
}

void changeNetwork(Cluster &cluster, const NetworkChange &change) {
  for (optimus_prices::CollectiveProfile &curve : cluster.measured)
    changeNetwork(curve, change);
  for (ClusterLink *link :
       {&cluster.deviceLink, &cluster.nic, &cluster.sockets.link}) {
    link->bytesPerSecond *= change.bandwidth;
    link->inBytesPerSecond *= change.bandwidth;
    link->latency *= change.latency;
  }
  cluster.pcie.bytesPerSecond *= change.bandwidth;
  for (Protocol &protocol : cluster.protocols)
    for (double *time :
         {&protocol.start, &protocol.deviceStep, &protocol.nicStep})
      *time *= change.latency;
}

} // namespace optimus_simulation
