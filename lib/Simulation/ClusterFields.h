//===- ClusterFields.h - What a cluster's file has --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each field once, as mappings of LLVM's YAMLIO: whoever reads, writes or lists
// them is an `Io`. Its functions take the name of a field and its value:
//
//   version(name, number), count(name, int64_t &), time(name, double &),
//   rate(name, double &) above 0, text(name, std::string &),
//   choice(name, value &, pairs of a name and a value), object(name, map),
//   oneOrList(name, list & of objects, of which one needs no list),
//   list(name, list & of objects with fields of their own), numbers(name, list
//   & of integers), points(name, pairs of bytes and seconds &), protocols(name,
//   list &), extents(name, pairs of an axis and an extent &)
//
// Before a field `optional()` says that it need not be there, with true: that
// nothing is lost without it. `unless(reason)` forbids it, if there is a
// reason.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_CLUSTERFIELDS_H
#define OPTIMUS_LIB_SIMULATION_CLUSTERFIELDS_H

#include "optimus/Simulation/Cluster.h"

#include <string_view>
#include <utility>

namespace optimus_simulation {

template <typename Io>
void mapFields(Io &io, ClusterLink &link) {
  io.rate("bytes_per_s", link.bytesPerSecond);
  io.optional(link.inBytesPerSecond == 0)
      .rate("in_bytes_per_s", link.inBytesPerSecond);
  io.time("latency_s", link.latency);
}

template <typename Io>
void mapFields(Io &io, SwitchLevel &level) {
  io.count("nodes", level.nodes);
  io.rate("oversubscription", level.oversubscription);
}

template <typename Io>
void mapFields(Io &io, PcieTree &tree) {
  constexpr std::pair<std::string_view, PcieTree::Cards> kPlaces[] = {
      {"switch", PcieTree::OnSwitches}, {"root", PcieTree::OnRoot}};
  io.count("devices", tree.devicesPerSwitch);
  io.rate("bytes_per_s", tree.bytesPerSecond);
  io.choice("nics", tree.cards, kPlaces);
}

template <typename Io>
void mapFields(Io &io, Protocol &protocol) {
  constexpr std::pair<std::string_view, Protocol::Algorithm> kAlgorithms[] = {
      {"ring", Protocol::Ring},
      {"tree", Protocol::Tree},
      {"switch", Protocol::Switch}};
  io.text("name", protocol.name);
  io.choice("algorithm", protocol.algorithm, kAlgorithms);
  io.optional().time("start_s", protocol.start);
  const char *none = protocol.algorithm == Protocol::Switch
                         ? "a switch adds up at once, within a node"
                         : nullptr;
  io.optional().unless(none).time("device_step_s", protocol.deviceStep);
  io.optional().unless(none).time("nic_step_s", protocol.nicStep);
  io.optional().rate("rate", protocol.rate);
  io.optional(protocol.nicRate == 0)
      .unless(none)
      .rate("nic_rate", protocol.nicRate);
}

/// A measured curve.
template <typename Io>
void mapFields(Io &io, optimus_prices::CollectiveProfile &curve) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"broadcast", "broadcast"},           {"reduce", "reduce"},
      {"all_reduce", "all_reduce"},         {"all_gather", "all_gather"},
      {"reduce_scatter", "reduce_scatter"}, {"all_to_all", "all_to_all"}};
  io.choice("collective", curve.collective, kKinds);
  io.count("ranks", curve.ranks);
  io.count("nodes", curve.machines);
  io.points("points", curve.points);
}

template <typename Io>
void mapFields(Io &io, Cluster &cluster) {
  io.version("version", 1);
  io.object("nodes", [&](auto &nodes) {
    nodes.count("devices", cluster.devicesPerNode);
    nodes.optional().count("nics", cluster.nicsPerNode);
    nodes.optional(cluster.numNodes == 0).count("count", cluster.numNodes);
    nodes.optional(cluster.machineProfile.empty())
        .text("machine_profile", cluster.machineProfile);
  });
  io.object("nic", [&](auto &link) { mapFields(link, cluster.nic); });
  io.unless(cluster.devicesPerNode > 1
                ? nullptr
                : "nothing joins the one device of a node")
      .object("device_link",
              [&](auto &link) { mapFields(link, cluster.deviceLink); });
  io.optional(cluster.pcie.devicesPerSwitch == 0)
      .unless(cluster.devicesPerNode > 1
                  ? nullptr
                  : "nothing joins the one device of a node")
      .object("pcie", [&](auto &tree) { mapFields(tree, cluster.pcie); });
  io.optional(cluster.sockets.devicesPerSocket == 0)
      .unless(cluster.devicesPerNode > 1
                  ? nullptr
                  : "nothing joins the one device of a node")
      .object("sockets", [&](auto &one) {
        one.count("devices", cluster.sockets.devicesPerSocket);
        mapFields(one, cluster.sockets.link);
      });
  io.optional(cluster.protocols.empty())
      .protocols("protocols", cluster.protocols);
  io.optional(cluster.switches.empty()).oneOrList("switch", cluster.switches);
  io.optional(cluster.measured.empty()).list("measured", cluster.measured);
  io.optional(cluster.tile.empty() && cluster.devices.empty())
      .object("placement", [&](auto &placement) {
        placement.optional(cluster.tile.empty()).extents("tile", cluster.tile);
        placement.optional(cluster.devices.empty())
            .unless(cluster.tile.empty() ? nullptr
                                         : "the tile places ranks already")
            .numbers("devices", cluster.devices);
      });
}

/// The places of all fields: "nodes.devices", "protocols[].rate".
std::vector<std::string> listClusterFields();

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_CLUSTERFIELDS_H
