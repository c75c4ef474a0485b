//===- ReadMachineProfile.cpp - Machine profiles as JSON --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/ReadMachineProfile.h"

#include "KnownProfiles.h"

#include "optimus/Prices/CollectivePrices.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/JsonPlace.h"

#include <algorithm>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::JsonPlace;
using optimus_support::JsonText;
using optimus_support::Status;
using optimus_support::StatusOr;

namespace optimus_prices {

//===----------------------------------------------------------------------===//
// What was timed
//===----------------------------------------------------------------------===//

static void read(const JsonPlace &entry, GemmPoint &point) {
  entry["m"].require().readCount(point.m);
  entry["n"].require().readCount(point.n);
  entry["k"].require().readCount(point.k);
  entry["seconds"].require().readPositive(point.seconds);
  point.transA = entry["trans_a"].getBoolean();
  point.transB = entry["trans_b"].getBoolean();
  point.bias = entry["bias"].getBoolean();
  point.gaps = entry["gaps"].getBoolean();
}

static void read(const JsonPlace &entry, AttentionPoint &point) {
  entry["seq"].require().readCount(point.seq);
  entry["head_dim"].require().readCount(point.headDim);
  entry["seconds"].require().readPositive(point.seconds);
  point.causal = entry["causal"].getBoolean();
  point.gradient = entry["gradient"].getBoolean();
}

static void read(const JsonPlace &entry, PackPoint &point) {
  entry["rows"].require().readCount(point.rows);
  entry["cols"].require().readCount(point.cols);
  entry["seconds"].require().readPositive(point.seconds);
  point.trans = entry["trans"].getBoolean();
}

/// The rate of a loop over so many bytes.
static void read(const JsonPlace &entry, std::pair<double, double> &point) {
  entry["bytes"].require().readNumber(point.first);
  entry["bytes_per_s"].require().readPositive(point.second);
}

template <typename Entry>
static void readList(const JsonPlace &place, std::vector<Entry> &list) {
  place.forEach(
      [&](const JsonPlace &entry) { read(entry, list.emplace_back()); });
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

/// The rate and the points of an implementation of attention.
struct AttentionKeys {
  const char *rate, *points;
};
static constexpr AttentionKeys kOwnAttention = {"attention_flops_per_s",
                                                "attention"};
static constexpr AttentionKeys kCudnnAttention = {"attention_cudnn_flops_per_s",
                                                  "attention_cudnn"};

static void readAttention(const JsonPlace &entry, const AttentionKeys &keys,
                          AttentionRates &rates) {
  entry[keys.rate].readPositive(rates.flopsPerSecond);
  readList(entry[keys.points], rates.points);
}

static void readRates(const JsonPlace &entry, ProductRates &rates) {
  readAttention(entry, kOwnAttention, rates.attention);
  if (entry[kCudnnAttention.rate].exists() ||
      entry[kCudnnAttention.points].exists()) {
    rates.cudnnAttention.emplace().flopsPerSecond =
        rates.attention.flopsPerSecond;
    readAttention(entry, kCudnnAttention, *rates.cudnnAttention);
  }
  entry["flops_per_s"].readPositive(rates.flopsPerSecond);
  entry["half_m"].readNumber(rates.halfM);
  entry["half_n"].readNumber(rates.halfN);
  entry["half_k"].readNumber(rates.halfK);
  readList(entry["points"], rates.points);
  if (const JsonPlace cold = entry["cold_s_per_byte"]; cold.exists())
    cold.readNumber(rates.coldSecondsPerByte.emplace());
}

/// Reads the rates of a type other than f32.
static void read(const JsonPlace &entry,
                 std::pair<std::string, ProductRates> &type) {
  constexpr std::string_view known[] = {"bf16", "f16", "tf32"};
  const std::string *name = entry["type"].getString();
  if (!name ||
      std::find(std::begin(known), std::end(known), *name) == std::end(known))
    return entry["type"].fail("expected bf16, f16 or tf32; the rates of f32 "
                              "are those of the entry itself");
  type.first = *name;
  readRates(entry, type.second);
}

static void read(const JsonPlace &entry, ComputeProfile &compute) {
  entry["threads"].readCount(compute.threads);
  entry["ranks"].readCount(compute.ranks);
  entry["cores"].readCount(compute.cores, /*least=*/0);
  entry["alpha_s"].readNumber(compute.gemmAlpha);
  entry["kernel_alpha_s"].readNumber(compute.kernelAlpha);
  entry["bytes_per_s"].readPositive(compute.bytesPerSecond);
  entry["vector_ops_per_s"].readNumber(compute.vectorOpsPerSecond);
  entry["divisions_per_s"].readNumber(compute.divisionsPerSecond);
  entry["scalar_ops_per_s"].readNumber(compute.scalarOpsPerSecond);
  readRates(entry, compute);
  readList(entry["types"], compute.otherTypes);
  readList(entry["packs"], compute.packs);
  readList(entry["streams"], compute.streams);
  readList(entry["columns"], compute.columns);
  std::sort(compute.streams.begin(), compute.streams.end());
  std::sort(compute.columns.begin(), compute.columns.end());
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

/// The kinds that are measured.
static bool isMeasured(std::string_view collective) {
  for (int kind = 0; kind <= int(CollectiveKind::ReduceScatter); ++kind)
    if (collective == toString(static_cast<CollectiveKind>(kind)))
      return true;
  return false;
}

static void readPoints(const JsonPlace &place, CollectiveProfile &entry) {
  place.forEach(
      [&](const JsonPlace &point) {
        auto &[bytes, seconds] = entry.points.emplace_back();
        point["bytes"].require().readNumber(bytes);
        point["seconds"].require().readNumber(seconds);
        if (!point["processor_s"].exists())
          return;
        auto &[size, spent] = entry.processors.emplace_back();
        size = bytes;
        point["processor_s"].readNumber(spent);
      },
      "expected an object with bytes and seconds");
  for (auto *points : {&entry.points, &entry.processors}) {
    std::sort(points->begin(), points->end());
    points->erase(std::unique(points->begin(), points->end(),
                              [](const auto &a, const auto &b) {
                                return a.first == b.first;
                              }),
                  points->end());
  }
}

static void read(const JsonPlace &place, CollectiveProfile &entry) {
  for (auto [key, text] : {std::pair("backend", &entry.backend),
                           std::pair("collective", &entry.collective)}) {
    const std::string *found = place[key].getString();
    if (!found)
      return place[key].fail("expected a string");
    *text = *found;
  }
  if (!isMeasured(entry.collective))
    return place["collective"].fail(
        "expected broadcast, reduce, all_reduce, all_gather or "
        "reduce_scatter");
  place["ranks"].require().readCount(entry.ranks, /*least=*/2);
  place["machines"].readCount(entry.machines);
  place["alpha_s"].require().readNumber(entry.alpha);
  place["beta_s_per_byte"].require().readNumber(entry.beta);
  readPoints(place["points"], entry);
}

static void read(const JsonPlace &entry, LinkTier &tier) {
  entry["ranks"].require().readCount(tier.ranks);
  entry["alpha_s"].require().readNumber(tier.alpha);
  entry["beta_s_per_byte"].require().readNumber(tier.beta);
}

/// Each tier joins whole groups of the nearer one.
static void readTiers(const JsonPlace &place, std::vector<LinkTier> &tiers) {
  place.forEach([&](const JsonPlace &entry) {
    const int64_t before = tiers.empty() ? 1 : tiers.back().ranks;
    LinkTier &tier = tiers.emplace_back();
    read(entry, tier);
    const bool isMultiple = tier.ranks > before && tier.ranks % before == 0;
    if (tiers.size() > 1 && !isMultiple)
      entry["ranks"].fail("expected a multiple of the ranks that the links "
                          "before join");
  });
}

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

static void readGpu(const JsonPlace &gpu, std::optional<GpuProfile> &profile) {
  if (!gpu.exists())
    return;
  if (!gpu.isObject())
    return gpu.fail("expected an object");
  profile.emplace();
  const std::string *name = gpu["name"].getString();
  if (!name || name->empty())
    return gpu["name"].fail("expected the name of a GPU");
  profile->name = *name;
  profile->isFake = gpu["fake"].getBoolean();
  gpu["memory_bytes"].require().readCount(profile->memoryBytes);
  gpu["reserved_bytes"].readCount(profile->reservedBytes, /*least=*/0);
  if (profile->reservedBytes >= profile->memoryBytes)
    gpu["reserved_bytes"].fail("expected less than memory_bytes");
}

static void readHostLink(const JsonPlace &place,
                         std::optional<HostLink> &link) {
  if (!place.exists())
    return;
  if (!place.isObject())
    return place.fail("expected an object");
  link.emplace();
  place["in_bytes_per_s"].require().readPositive(link->in);
  place["out_bytes_per_s"].require().readPositive(link->out);
  place["alpha_s"].readNumber(link->alpha);
}

/// GPUs talk over NCCL and processors over threads; a profile without either is
/// for its first back-end.
static void chooseBackend(MachineProfile &profile) {
  const std::string usual = profile.gpu ? "nccl" : "local";
  const bool hasUsual =
      std::any_of(profile.collectives.begin(), profile.collectives.end(),
                  [&](const auto &entry) { return entry.backend == usual; });
  if (hasUsual)
    profile.backend = usual;
  else if (!profile.collectives.empty())
    profile.backend = profile.collectives.front().backend;
}

static void readProfile(const JsonPlace &root, MachineProfile &profile) {
  if (!root.isObject())
    return root.fail("expected an object");
  if (!root["version"].isNumber(1))
    return root["version"].fail(
        "expected 1, the version that this compiler reads");
  readList(root["gemm"], profile.computes);
  readList(root["comm"], profile.collectives);
  readTiers(root["links"], profile.tiers);
  readGpu(root["gpu"], profile.gpu);
  readHostLink(root["host_link"], profile.hostLink);
  root["axes_share_link"].readBoolean(profile.axesShareLink);
  chooseBackend(profile);
}

StatusOr<MachineProfile> parseMachineProfile(std::string_view json,
                                             const std::string &name) {
  JsonText text(json, name, "profile");
  MachineProfile profile;
  if (text.getMistake().empty())
    readProfile(text.getRoot(), profile);
  if (!text.getMistake().empty())
    return invalidArgument(concat("machine profile '", name,
                                  "': ", text.getMistake(),
                                  "; optimus-run bench --gemm and --comm "
                                  "write one"));
  return profile;
}

StatusOr<std::string> readMachineProfileText(const std::string &nameOrPath) {
  if (isKnownProfile(nameOrPath))
    return getKnownProfile(nameOrPath);
  constexpr size_t kMostBytes = size_t(64) << 20;
  StatusOr<std::string> text =
      optimus_support::readInput(nameOrPath, kMostBytes);
  if (text.ok())
    return text;
  // What is written like no file may be meant as a name.
  const bool mayBeName =
      nameOrPath.find_first_of("/.") == std::string::npos && nameOrPath != "-";
  return invalidArgument(concat("machine profile '", nameOrPath, "': ",
                                mayBeName ? explainKnownProfiles(nameOrPath)
                                          : text.status().message()));
}

StatusOr<MachineProfile> loadMachineProfile(const std::string &nameOrPath) {
  if (nameOrPath.empty() || nameOrPath == kNoProfile)
    return MachineProfile();
  OPTRT_ASSIGN_OR_RETURN(std::string text, readMachineProfileText(nameOrPath));
  return parseMachineProfile(text, nameOrPath);
}

} // namespace optimus_prices
