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
#include "optimus-support/JsonCursor.h"

#include <algorithm>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;
using optimus_support::StatusCode;
using optimus_support::StatusOr;

namespace optimus_prices {

//===----------------------------------------------------------------------===//
// What was timed
//===----------------------------------------------------------------------===//

static void read(const JsonCursor &entry, GemmPoint &point) {
  point.m = entry["m"].count();
  point.n = entry["n"].count();
  point.k = entry["k"].count();
  point.seconds = entry["seconds"].positiveNumber();
  point.transA = entry.find("trans_a").boolean();
  point.transB = entry.find("trans_b").boolean();
  point.bias = entry.find("bias").boolean();
  point.gaps = entry.find("gaps").boolean();
}

static void read(const JsonCursor &entry, AttentionPoint &point) {
  point.seq = entry["seq"].count();
  point.headDim = entry["head_dim"].count();
  point.seconds = entry["seconds"].positiveNumber();
  point.causal = entry.find("causal").boolean();
  point.gradient = entry.find("gradient").boolean();
}

static void read(const JsonCursor &entry, PackPoint &point) {
  point.rows = entry["rows"].count();
  point.cols = entry["cols"].count();
  point.seconds = entry["seconds"].positiveNumber();
  point.trans = entry.find("trans").boolean();
}

/// The rate of a loop over so many bytes.
static void read(const JsonCursor &entry, std::pair<double, double> &point) {
  point.first = entry["bytes"].numberFromZero();
  point.second = entry["bytes_per_s"].positiveNumber();
}

template <typename Entry>
static void readList(const JsonCursor &place, std::vector<Entry> &list) {
  for (const JsonCursor &entry : place.elements())
    read(entry, list.emplace_back());
}

/// Sets what is there; the rest stays as it is.
static void setCount(int64_t &count, const JsonCursor &place,
                     int64_t least = 1) {
  if (place)
    count = place.count(least);
}
static void setNumber(double &number, const JsonCursor &place) {
  if (place)
    number = place.numberFromZero();
}
static void setPositive(double &number, const JsonCursor &place) {
  if (place)
    number = place.positiveNumber();
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

static void readAttention(const JsonCursor &entry, const AttentionKeys &keys,
                          AttentionRates &rates) {
  setPositive(rates.flopsPerSecond, entry.find(keys.rate));
  readList(entry.find(keys.points), rates.points);
}

static void readRates(const JsonCursor &entry, ProductRates &rates) {
  readAttention(entry, kOwnAttention, rates.attention);
  if (entry.find(kCudnnAttention.rate) || entry.find(kCudnnAttention.points)) {
    rates.cudnnAttention.emplace().flopsPerSecond =
        rates.attention.flopsPerSecond;
    readAttention(entry, kCudnnAttention, *rates.cudnnAttention);
  }
  setPositive(rates.flopsPerSecond, entry.find("flops_per_s"));
  setNumber(rates.halfM, entry.find("half_m"));
  setNumber(rates.halfN, entry.find("half_n"));
  setNumber(rates.halfK, entry.find("half_k"));
  readList(entry.find("points"), rates.points);
  if (const JsonCursor cold = entry.find("cold_s_per_byte"))
    rates.coldSecondsPerByte = cold.numberFromZero();
}

/// Reads the rates of a type other than f32.
static void read(const JsonCursor &entry,
                 std::pair<std::string, ProductRates> &type) {
  constexpr std::string_view known[] = {"bf16", "f16", "tf32"};
  type.first = entry["type"].string();
  if (std::ranges::find(known, type.first) == std::end(known))
    return entry["type"].fail("expected bf16, f16 or tf32; the rates of f32 "
                              "are those of the entry itself");
  readRates(entry, type.second);
}

static void read(const JsonCursor &entry, ComputeProfile &compute) {
  setCount(compute.threads, entry.find("threads"));
  setCount(compute.ranks, entry.find("ranks"));
  setCount(compute.cores, entry.find("cores"), /*least=*/0);
  setNumber(compute.gemmAlpha, entry.find("alpha_s"));
  setNumber(compute.kernelAlpha, entry.find("kernel_alpha_s"));
  setPositive(compute.bytesPerSecond, entry.find("bytes_per_s"));
  setNumber(compute.vectorOpsPerSecond, entry.find("vector_ops_per_s"));
  setNumber(compute.divisionsPerSecond, entry.find("divisions_per_s"));
  setNumber(compute.scalarOpsPerSecond, entry.find("scalar_ops_per_s"));
  readRates(entry, compute);
  readList(entry.find("types"), compute.otherTypes);
  readList(entry.find("packs"), compute.packs);
  readList(entry.find("streams"), compute.streams);
  readList(entry.find("columns"), compute.columns);
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

static void readPoints(const JsonCursor &place, CollectiveProfile &entry) {
  for (const JsonCursor &point : place.elements()) {
    const double bytes = point["bytes"].numberFromZero();
    entry.points.emplace_back(bytes, point["seconds"].numberFromZero());
    if (const JsonCursor spent = point.find("processor_s"))
      entry.processors.emplace_back(bytes, spent.numberFromZero());
  }
  for (auto *points : {&entry.points, &entry.processors}) {
    std::sort(points->begin(), points->end());
    points->erase(std::unique(points->begin(), points->end(),
                              [](const auto &a, const auto &b) {
                                return a.first == b.first;
                              }),
                  points->end());
  }
}

static void read(const JsonCursor &place, CollectiveProfile &entry) {
  entry.backend = place["backend"].string();
  entry.collective = place["collective"].string();
  if (!isMeasured(entry.collective))
    return place["collective"].fail(
        "expected broadcast, reduce, all_reduce, all_gather or "
        "reduce_scatter");
  entry.ranks = place["ranks"].count(/*least=*/2);
  setCount(entry.machines, place.find("machines"));
  entry.alpha = place["alpha_s"].numberFromZero();
  entry.beta = place["beta_s_per_byte"].numberFromZero();
  readPoints(place.find("points"), entry);
}

static void read(const JsonCursor &entry, LinkTier &tier) {
  tier.ranks = entry["ranks"].count();
  tier.alpha = entry["alpha_s"].numberFromZero();
  tier.beta = entry["beta_s_per_byte"].numberFromZero();
}

/// Each tier joins whole groups of the nearer one.
static void readTiers(const JsonCursor &place, std::vector<LinkTier> &tiers) {
  for (const JsonCursor &entry : place.elements()) {
    const int64_t before = tiers.empty() ? 1 : tiers.back().ranks;
    LinkTier &tier = tiers.emplace_back();
    read(entry, tier);
    const bool isMultiple = tier.ranks > before && tier.ranks % before == 0;
    if (tiers.size() > 1 && !isMultiple)
      entry["ranks"].fail("expected a multiple of the ranks that the links "
                          "before join");
  }
}

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

static void readGpu(const JsonCursor &gpu, std::optional<GpuProfile> &profile) {
  if (!gpu)
    return;
  profile.emplace();
  profile->name = gpu["name"].string();
  if (profile->name.empty())
    return gpu["name"].fail("expected the name of a GPU");
  profile->isFake = gpu.find("fake").boolean();
  profile->memoryBytes = gpu["memory_bytes"].count();
  setCount(profile->reservedBytes, gpu.find("reserved_bytes"), /*least=*/0);
  if (profile->reservedBytes >= profile->memoryBytes)
    gpu["reserved_bytes"].fail("expected less than memory_bytes");
}

template <typename Link>
static void readLink(const JsonCursor &place, std::optional<Link> &link) {
  if (!place)
    return;
  link.emplace();
  link->in = place["in_bytes_per_s"].positiveNumber();
  link->out = place["out_bytes_per_s"].positiveNumber();
  setNumber(link->alpha, place.find("alpha_s"));
  if constexpr (std::is_same_v<Link, ScratchLink>) {
    setNumber(link->inProcessorSeconds, place.find("in_processor_s_per_byte"));
    setNumber(link->outProcessorSeconds,
              place.find("out_processor_s_per_byte"));
  }
}

/// Factors from 1 on, each of a kind.
static void readFactors(const JsonCursor &place,
                        const std::vector<std::string> &kinds,
                        Interference::Factors &factors) {
  constexpr double kMost = 100;
  if (!place)
    return;
  place.refuseOthers(kinds);
  for (const auto &[kind, entry] : place.members()) {
    const double factor = entry.number();
    if (!(factor >= 1 && factor <= kMost))
      return entry.fail(concat("expected a factor from 1 to ", kMost));
    factors.emplace_back(kind, factor);
  }
}

static void readInterference(const JsonCursor &place, MachineProfile &profile) {
  if (!place)
    return;
  if (!profile.gpu)
    return place.fail("expected none without gpu: ranks on processors share "
                      "cores");
  place.refuseOthers({"source", "computing", "collectives"});
  Interference &found = profile.interference.emplace();
  found.source = place["source"].string();
  if (found.source.empty())
    return place["source"].fail("expected who measured the factors");
  readFactors(place.find("computing"),
              {"gemm", "pack", "launch", "copy", "attention", "attention_grad"},
              found.computing);
  readFactors(place.find("collectives"),
              {"broadcast", "reduce", "all_reduce", "all_gather",
               "reduce_scatter", "all_to_all", "send", "receive"},
              found.collectives);
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

static void readProfile(const JsonCursor &root, MachineProfile &profile) {
  if (root["version"].number() != 1)
    return root["version"].fail(
        "expected 1, the version that this compiler reads");
  readList(root.find("gemm"), profile.computes);
  readList(root.find("comm"), profile.collectives);
  readTiers(root.find("links"), profile.tiers);
  readGpu(root.find("gpu"), profile.gpu);
  readLink(root.find("host_link"), profile.hostLink);
  readLink(root.find("scratch"), profile.scratch);
  readInterference(root.find("interference"), profile);
  if (const JsonCursor share = root.find("axes_share_link"))
    profile.axesShareLink = share.boolean();
  chooseBackend(profile);
}

StatusOr<MachineProfile> parseMachineProfile(std::string_view json,
                                             const std::string &name) {
  JsonDocument document(json, concat("machine profile '", name, "'"),
                        StatusCode::InvalidArgument);
  MachineProfile profile;
  if (const JsonCursor root = document.root())
    readProfile(root, profile);
  if (!document.status().ok())
    return document.status().withAdvice(
        "optimus-run bench --gemm and --comm write one");
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
