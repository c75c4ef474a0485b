//===- Cluster.h - Machines and what joins them -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_CLUSTER_H
#define OPTIMUS_SIMULATION_CLUSTER_H

#include "optimus/Simulation/WhatIf.h"

#include "optimus-support/Mesh.h"
#include "optimus-support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace optimus_simulation {

/// A link out of a device, a card or a socket, and into it.
struct ClusterLink {
  /// Out of it; and into it, where that is another rate and not 0.
  double bytesPerSecond = 0;
  /// Of a message, however small.
  double latency = 0;
  double inBytesPerSecond = 0;

  double getInRate() const {
    return inBytesPerSecond > 0 ? inBytesPerSecond : bytesPerSecond;
  }
};

/// So many nodes have a switch. Its links to the others carry as much as its
/// nodes' cards together, divided by `oversubscription`.
struct SwitchLevel {
  int64_t nodes = 0;
  double oversubscription = 1;
};

/// By axis, the part of a mesh on a node.
using Tile = std::vector<std::pair<std::string, int64_t>>;

/// One of the ways in which a library may move a collective.
struct Protocol {
  enum Algorithm {
    /// Around rings, where broadcasts go to all in as many steps as halve them.
    Halves,
    /// Around rings, broadcasts from member to member.
    Ring,
    /// Of all-reduce: up a tree of nodes and down again, chains within nodes.
    Tree,
    /// Of all-reduce within a node: its switch adds up.
    Switch,
  };
  std::string name;
  Algorithm algorithm = Halves;
  /// Once a collective, of a step within a node, and of one between nodes.
  double start = 0, deviceStep = 0, nicStep = 0;
  /// Of what links carry otherwise, so much; between nodes `nicRate`, if it is
  /// not 0.
  double rate = 1, nicRate = 0;

  double getRate(bool isBetweenNodes) const {
    return isBetweenNodes && nicRate > 0 ? nicRate : rate;
  }
};

/// NCCL's, by the constants of its own choice (src/graph/tuning.cc); where the
/// switch adds up, NVLS, too.
std::vector<Protocol> getNcclProtocols(bool hasSwitch);

/// Joins the devices of a node without links of their own kind: each is on a
/// switch, and switches are on one root. Its own link carries all that it
/// sends.
struct PcieTree {
  /// Each card is on the switch of its first device, or all are on the root.
  enum Cards { OnSwitches, OnRoot };
  /// 0: there is no tree.
  int64_t devicesPerSwitch = 0;
  /// Between a switch and the root, in each direction.
  double bytesPerSecond = 0;
  Cards cards = OnSwitches;
};

/// Joins devices of a node on different processors: what goes from one socket
/// to another, also to a card there, passes this link of both.
struct SocketLinks {
  /// 0: sockets do not count.
  int64_t devicesPerSocket = 0;
  /// Of a socket, in each direction.
  ClusterLink link;
};

/// Nodes that are alike: each has as many devices, joined without blocking each
/// other, and network cards that devices share evenly, the first ones the first
/// card. docs/what-if.md describes its file.
struct Cluster {
  std::string name;
  int64_t devicesPerNode = 1, nicsPerNode = 1;
  /// 0: as many as ranks need.
  int64_t numNodes = 0;
  /// Of each device: a known one or a file. Empty: not said.
  std::string machineProfile;
  /// Out of each device to those of its node, and into it.
  ClusterLink deviceLink;
  /// Where devices share what is between them, too.
  PcieTree pcie;
  SocketLinks sockets;
  /// Out of each card, and into it.
  ClusterLink nic;
  /// Of these, the one that takes least is taken. None: rings whose steps take
  /// the latencies of links.
  std::vector<Protocol> protocols;
  /// From the nearest on, each of whole switches of the one before. None: one
  /// switch for all.
  std::vector<SwitchLevel> switches;
  /// What collectives were measured to take, whatever links are: among so many
  /// ranks (`ranks`) on so many nodes (`machines`) with nobody beside.
  std::vector<optimus_prices::CollectiveProfile> measured;
  /// Empty: ranks that follow each other.
  Tile tile;
  /// Of each rank its device, numbered through all nodes; in place of a tile.
  std::vector<int64_t> devices;
};

/// Where a rank is.
struct ClusterPlace {
  int64_t node = 0, device = 0;
};

/// The names of those that are known: nodes of eight GPUs of a known machine
/// profile with a card for each and NCCL's protocols, as "h100", and "selene"
/// of such; "frontera-rtx".
std::vector<std::string> listKnownClusters();
/// "a100, h100 or h200", of all of them.
std::string describeKnownClusters();
/// Reads a file, or makes a cluster that is known by name. InvalidArgument
/// names the file and its mistake; every field is read, or refused with the
/// nearest name.
optimus_support::StatusOr<Cluster> loadCluster(const std::string &nameOrPath);

/// The machine profile of its devices, if they are GPUs or processors, as
/// asked; else, and where it names none, "".
optimus_support::StatusOr<std::string> findDevices(const Cluster &cluster,
                                                   bool areGpus);
optimus_support::StatusOr<Cluster> parseCluster(std::string_view json,
                                                const std::string &name);
/// A cluster as its file, with all of its fields.
std::string printCluster(Cluster cluster);

/// Adds what a profile's collectives were measured to take, where it says on
/// how many machines and the cluster has no curve of the kind itself.
void takeMeasured(Cluster &cluster,
                  const optimus_prices::CommunicationProfile &profile);

/// Places all ranks of a mesh. InvalidArgument where the tile does not divide
/// it, or has as many ranks as no node has devices, where a list has not a
/// device for each rank, and where there are too few nodes.
optimus_support::StatusOr<std::vector<ClusterPlace>>
placeRanks(const Cluster &cluster, const optimus_support::Mesh &mesh);

/// "row:2,col:4".
optimus_support::StatusOr<Tile> parseTile(const std::string &text);
std::string printTile(const Tile &tile);

/// All parts of a mesh that divide it and leave the fewest devices of a node
/// without a rank.
std::vector<Tile> listTiles(const Cluster &cluster,
                            const optimus_support::Mesh &mesh);

/// The parts of a mesh on a node that are in question: the cluster's own, or
/// all tiles; where those leave devices without a rank, consecutive ranks, too,
/// as an empty tile.
std::vector<Tile> listPlacements(const Cluster &cluster,
                                 const optimus_support::Mesh &mesh);

/// A cluster's links, changed.
void changeNetwork(Cluster &cluster, const NetworkChange &change);

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_CLUSTER_H
