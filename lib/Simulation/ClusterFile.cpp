//===- ClusterFile.cpp - Clusters in JSON -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterFields.h"

#include "optimus-support/JsonCursor.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

using nlohmann::ordered_json;
using optimus_support::concat;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;
using optimus_support::StatusCode;
using optimus_support::StatusOr;

namespace optimus_simulation {

namespace {
/// Lists fields by their places below `prefix`, and the names of those at the
/// top.
class FieldLister {
public:
  explicit FieldLister(std::string prefix = "") : prefix(std::move(prefix)) {}

  FieldLister &optional(bool = false) { return *this; }
  FieldLister &unless(const char *) { return *this; }
  void version(const char *name, int64_t) { add(name); }
  void count(const char *name, int64_t &) { add(name); }
  void time(const char *name, double &) { add(name); }
  void rate(const char *name, double &) { add(name); }
  void text(const char *name, std::string &) { add(name); }
  template <typename Value, typename Pairs>
  void choice(const char *name, Value &, const Pairs &) {
    add(name);
  }
  void extents(const char *name, Tile &) { add(name); }
  void numbers(const char *name, std::vector<int64_t> &) { add(name); }
  void points(const char *name, std::vector<std::pair<double, double>> &) {
    const std::string point = concat(name, "[].");
    for (const char *field : {"bytes", "seconds"})
      places.push_back(prefix + point + field);
    names.emplace_back(name);
  }
  template <typename Map>
  void object(const char *name, Map map) {
    names.emplace_back(name);
    FieldLister inner(prefix + name + ".");
    map(inner);
    places.insert(places.end(), inner.places.begin(), inner.places.end());
  }
  template <typename Value>
  void list(const char *name, std::vector<Value> &) {
    Value any{};
    object((std::string(name) + "[]").c_str(),
           [&](FieldLister &one) { mapFields(one, any); });
    names.back() = name;
  }
  template <typename Value>
  void oneOrList(const char *name, std::vector<Value> &) {
    Value any{};
    object(name, [&](FieldLister &one) { mapFields(one, any); });
  }
  void protocols(const char *name, std::vector<Protocol> &values) {
    list(name, values);
  }

  std::vector<std::string> names, places;

private:
  void add(const char *name) {
    names.emplace_back(name);
    places.push_back(prefix + name);
  }

  const std::string prefix;
};

/// Reads fields, and refuses all others.
class FieldReader {
public:
  template <typename Map>
  static void read(const JsonCursor &place, Map map) {
    FieldLister lister;
    map(lister);
    place.refuseOthers(lister.names);
    FieldReader reader(place);
    map(reader);
  }

  FieldReader &optional(bool = false) {
    isOptional = true;
    return *this;
  }
  FieldReader &unless(const char *reason) {
    refusal = reason;
    return *this;
  }
  void version(const char *name, int64_t number) {
    if (place[name].number() != double(number))
      place[name].fail(
          concat("expected ", number, ", the version that this program reads"));
  }
  void count(const char *name, int64_t &value) {
    if (const JsonCursor found = find(name))
      value = found.count();
  }
  void time(const char *name, double &value) {
    if (const JsonCursor found = find(name))
      value = found.numberFromZero();
  }
  void rate(const char *name, double &value) {
    if (const JsonCursor found = find(name))
      value = found.positiveNumber();
  }
  void text(const char *name, std::string &value) {
    if (const JsonCursor found = find(name))
      value = found.string();
  }
  template <typename Value, typename Pairs>
  void choice(const char *name, Value &value, const Pairs &pairs) {
    const JsonCursor found = find(name);
    if (!found)
      return;
    const std::string chosen = found.string();
    std::string known;
    for (const auto &[text, one] : pairs) {
      known += concat(known.empty() ? "" : ", ", text);
      if (chosen == text) {
        value = one;
        return;
      }
    }
    found.fail(concat("expected one of ", known, ", found ", found.dump()));
  }
  void extents(const char *name, Tile &values) {
    for (const auto &[axis, extent] : find(name).members())
      values.emplace_back(axis, extent.count());
  }
  void numbers(const char *name, std::vector<int64_t> &values) {
    // Each node has links, whose memory is bounded.
    constexpr int64_t kMost = int64_t(1) << 20;
    if (const JsonCursor found = find(name))
      values = found.integers(0, kMost - 1);
  }
  void points(const char *name,
              std::vector<std::pair<double, double>> &values) {
    const JsonCursor found = find(name);
    for (const JsonCursor &one : found.elements()) {
      one.refuseOthers({"bytes", "seconds"});
      values.emplace_back(one["bytes"].numberFromZero(),
                          one["seconds"].positiveNumber());
    }
    auto isLater = [](const auto &a, const auto &b) {
      return a.first >= b.first;
    };
    if (found && (values.size() < 2 ||
                  std::ranges::adjacent_find(values, isLater) != values.end()))
      found.fail("expected two points or more, each of more bytes than the "
                 "one before");
  }
  template <typename Map>
  void object(const char *name, Map map) {
    if (const JsonCursor found = find(name))
      read(found, map);
  }
  template <typename Value>
  void list(const char *name, std::vector<Value> &values) {
    for (const JsonCursor &one : find(name).elements()) {
      Value &value = values.emplace_back();
      read(one, [&](auto &io) { mapFields(io, value); });
    }
  }
  template <typename Value>
  void oneOrList(const char *name, std::vector<Value> &values) {
    const JsonCursor found = find(name);
    std::vector<JsonCursor> places{found};
    if (found.isArray())
      places = found.elements();
    for (const JsonCursor &one : places)
      if (one) {
        Value &value = values.emplace_back();
        read(one, [&](auto &io) { mapFields(io, value); });
      }
  }
  void protocols(const char *name, std::vector<Protocol> &values) {
    const JsonCursor found = find(name);
    if (found.isString()) {
      if (found.string() != "nccl")
        return found.fail("expected nccl, or a list of protocols");
      values = getNcclProtocols(/*hasSwitch=*/false);
      return;
    }
    for (const JsonCursor &one : found.elements()) {
      Protocol value;
      read(one, [&](auto &io) { mapFields(io, value); });
      if (std::any_of(values.begin(), values.end(), [&](const Protocol &other) {
            return other.name == value.name;
          }))
        one["name"].fail("expected a name of its own");
      values.push_back(std::move(value));
    }
    auto isRing = [](const Protocol &one) {
      return one.algorithm == Protocol::Ring;
    };
    // All kinds of collectives have it.
    if (found && std::none_of(values.begin(), values.end(), isRing))
      found.fail("expected a protocol whose algorithm is ring");
  }

private:
  explicit FieldReader(const JsonCursor &place) : place(place) {}

  /// The place of a field, which is required unless `optional` or `unless` were
  /// called before.
  JsonCursor find(const char *name) {
    const char *reason = std::exchange(refusal, nullptr);
    const bool isRequired = !std::exchange(isOptional, false) && !reason;
    JsonCursor found = isRequired ? place[name] : place.find(name);
    if (reason && found)
      found.fail(reason);
    return found;
  }

  const JsonCursor place;
  bool isOptional = false;
  const char *refusal = nullptr;
};

/// Writes fields as they are read.
class FieldWriter {
public:
  FieldWriter &optional(bool nothingIsLost = false) {
    isLeftOut |= nothingIsLost;
    return *this;
  }
  FieldWriter &unless(const char *reason) {
    isLeftOut |= reason != nullptr;
    return *this;
  }
  void version(const char *name, int64_t number) { add(name, number); }
  void count(const char *name, int64_t &value) { add(name, value); }
  void time(const char *name, double &value) { add(name, value); }
  void rate(const char *name, double &value) { add(name, value); }
  void text(const char *name, std::string &value) { add(name, value); }
  template <typename Value, typename Pairs>
  void choice(const char *name, Value &value, const Pairs &pairs) {
    for (const auto &[text, one] : pairs)
      if (one == value)
        add(name, text);
  }
  void extents(const char *name, Tile &values) {
    ordered_json object = ordered_json::object();
    for (const auto &[axis, extent] : values)
      object[axis] = extent;
    add(name, std::move(object));
  }
  void numbers(const char *name, std::vector<int64_t> &values) {
    add(name, values);
  }
  void points(const char *name,
              std::vector<std::pair<double, double>> &values) {
    ordered_json list = ordered_json::array();
    for (const auto &[bytes, seconds] : values)
      list.push_back({{"bytes", bytes}, {"seconds", seconds}});
    add(name, std::move(list));
  }
  template <typename Map>
  void object(const char *name, Map map) {
    FieldWriter inner;
    map(inner);
    add(name, std::move(inner.json));
  }
  template <typename Value>
  void list(const char *name, std::vector<Value> &values) {
    ordered_json list = ordered_json::array();
    for (Value &value : values) {
      FieldWriter inner;
      mapFields(inner, value);
      list.push_back(std::move(inner.json));
    }
    add(name, std::move(list));
  }
  template <typename Value>
  void oneOrList(const char *name, std::vector<Value> &values) {
    if (values.size() == 1)
      object(name, [&](auto &one) { mapFields(one, values.front()); });
    else
      list(name, values);
  }
  void protocols(const char *name, std::vector<Protocol> &values) {
    list(name, values);
  }

  ordered_json json = ordered_json::object();

private:
  void add(const char *name, ordered_json value) {
    if (!std::exchange(isLeftOut, false))
      json[name] = std::move(value);
  }

  bool isLeftOut = false;
};
} // namespace

std::vector<std::string> listClusterFields() {
  Cluster any;
  FieldLister lister;
  mapFields(lister, any);
  return lister.places;
}

static void checkSockets(const JsonCursor &place, const Cluster &cluster) {
  const int64_t devices = cluster.sockets.devicesPerSocket;
  if (cluster.devicesPerNode % devices != 0 ||
      devices == cluster.devicesPerNode)
    place.fail("expected a part of nodes.devices, for two sockets or more with "
               "as many devices each");
  if (cluster.pcie.devicesPerSwitch > 0 &&
      devices % cluster.pcie.devicesPerSwitch != 0)
    place.fail("expected a multiple of pcie.devices, for sockets with whole "
               "switches");
}

/// Each of ranks that so many nodes may have, and of a kind of its own.
static void
checkMeasured(const std::vector<JsonCursor> &places,
              std::vector<optimus_prices::CollectiveProfile> &list) {
  auto isOf = [](const auto &a, const auto &b) {
    return a.collective == b.collective && a.ranks == b.ranks &&
           a.machines == b.machines;
  };
  for (size_t i = 0; i != places.size(); ++i) {
    optimus_prices::CollectiveProfile &one = list[i];
    if (one.ranks < 2 || one.machines > one.ranks)
      places[i]["ranks"].fail("expected at least 2, and as many as nodes");
    if (std::any_of(list.begin(), list.begin() + int64_t(i),
                    [&](const auto &other) { return isOf(one, other); }))
      places[i]["collective"].fail("expected one curve for so many ranks on so "
                                   "many nodes, found two");
    if (one.points.size() < 2)
      return;
    // The line through the first and the last is for what is beyond.
    const auto &[least, first] = one.points.front();
    const auto &[most, last] = one.points.back();
    one.beta = std::max(0.0, last - first) / (most - least);
    one.alpha = last - one.beta * most;
    if (one.alpha < 0) {
      one.alpha = 0;
      one.beta = last / most;
    }
  }
}

static void readCluster(const JsonCursor &root, Cluster &cluster) {
  FieldReader::read(root, [&](auto &io) { mapFields(io, cluster); });
  int64_t below = 1;
  for (const SwitchLevel &level : cluster.switches) {
    if (level.nodes % below != 0 || (level.nodes == below && below > 1))
      root["switch"].fail("expected levels from the nearest on, each of twice "
                          "the nodes of the one before, or another multiple");
    below = level.nodes;
  }
  if (cluster.sockets.devicesPerSocket > 0)
    checkSockets(root["sockets"]["devices"], cluster);
  if (const JsonCursor measured = root.find("measured"))
    checkMeasured(measured.elements(), cluster.measured);
  if (const JsonCursor placement = root.find("placement");
      placement && cluster.tile.empty() && cluster.devices.empty())
    placement.fail("expected a tile, or the devices of ranks");
  // Each has links, whose memory is bounded.
  constexpr int64_t kMostDevices = 1024;
  if (cluster.devicesPerNode > kMostDevices)
    root["nodes"]["devices"].fail(concat("expected at most ", kMostDevices));
  if (cluster.devicesPerNode % cluster.nicsPerNode != 0)
    root["nodes"]["nics"].fail("expected a divisor of devices, which share the "
                               "cards evenly");
  const PcieTree &tree = cluster.pcie;
  if (tree.devicesPerSwitch > 0 &&
      cluster.devicesPerNode % tree.devicesPerSwitch != 0)
    root["pcie"]["devices"].fail("expected a divisor of nodes.devices, for "
                                 "switches with as many devices each");
  if (tree.devicesPerSwitch == cluster.devicesPerNode &&
      tree.cards == PcieTree::OnSwitches)
    root["pcie"]["devices"].fail("expected less than nodes.devices, or nics on "
                                 "the root, since nothing passes it");
}

StatusOr<Cluster> parseCluster(std::string_view json, const std::string &name) {
  JsonDocument document(json, concat("cluster '", name, "'"),
                        StatusCode::InvalidArgument);
  Cluster cluster;
  cluster.name = name;
  if (const JsonCursor root = document.root())
    readCluster(root, cluster);
  if (!document.status().ok())
    return document.status().withAdvice("docs/what-if.md describes the file");
  return cluster;
}

std::string printCluster(Cluster cluster) {
  FieldWriter writer;
  mapFields(writer, cluster);
  return writer.json.dump(2) + "\n";
}

} // namespace optimus_simulation
