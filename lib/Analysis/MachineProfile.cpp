//===- MachineProfile.cpp - What a machine was measured to do ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/MachineProfile.h"

#include "KnownProfiles.h"

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/Nesting.h"

#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

static constexpr StringLiteral kObjectExpected = "expected an object";
static constexpr StringLiteral kMoreExpected = "expected more than 0";

/// Calls `readEntry` with each member of an array and its path. A json::Path
/// refers to its parent, so none may outlive its parent: each is a variable.
static bool readArray(
    const json::Object &object, StringRef key, json::Path path,
    StringLiteral expected,
    llvm::function_ref<bool(const json::Object &, json::Path)> readEntry) {
  const json::Value *member = object.get(key);
  if (!member)
    return true;
  json::Path list = path.field(key);
  const json::Array *array = member->getAsArray();
  if (!array) {
    list.report("expected an array");
    return false;
  }
  for (auto [index, value] : llvm::enumerate(*array)) {
    json::Path at = list.index(index);
    const json::Object *entry = value.getAsObject();
    if (!entry) {
      at.report(expected);
      return false;
    }
    if (!readEntry(*entry, at))
      return false;
  }
  return true;
}

/// Reads a time or a rate.
static bool readPositive(const json::Object &object, StringRef key,
                         double &value, json::Path path, bool isRequired) {
  const json::Value *member = object.get(key);
  if (!member) {
    if (isRequired)
      path.field(key).report("missing");
    return !isRequired;
  }
  std::optional<double> number = member->getAsNumber();
  // JSON numbers have no infinity, but 1e999 reads as one.
  if (!number || !std::isfinite(*number) || *number < 0) {
    path.field(key).report("expected a finite number from 0");
    return false;
  }
  // Of these, sums and quotients are finite too.
  if (*number != 0 && (*number < 1e-30 || *number > 1e30)) {
    path.field(key).report("expected 0 or a number from 1e-30 to 1e30");
    return false;
  }
  value = *number;
  return true;
}

/// Reads an extent or a count.
static bool readCount(const json::Object &object, StringRef key, int64_t &value,
                      json::Path path, bool isRequired, int64_t least = 1) {
  const json::Value *member = object.get(key);
  if (!member) {
    if (isRequired)
      path.field(key).report("missing");
    return !isRequired;
  }
  std::optional<int64_t> number = member->getAsInteger();
  constexpr int64_t kMost = int64_t(1) << 40;
  if (!number || *number < least || *number > kMost) {
    // Clang takes no `?:` of literals for one.
    if (least == 0)
      path.field(key).report("expected an integer from 0");
    else
      path.field(key).report("expected an integer from 1");
    return false;
  }
  value = *number;
  return true;
}

static bool requirePositive(StringRef key, double rate, json::Path path) {
  if (rate == 0)
    path.field(key).report(kMoreExpected);
  return rate != 0;
}

static bool readGemmPoint(const json::Object &object, GemmPoint &point,
                          json::Path path) {
  if (!readCount(object, "m", point.m, path, true) ||
      !readCount(object, "n", point.n, path, true) ||
      !readCount(object, "k", point.k, path, true) ||
      !readPositive(object, "seconds", point.seconds, path, true) ||
      !requirePositive("seconds", point.seconds, path))
    return false;
  point.transA = object.getBoolean("trans_a").value_or(false);
  point.transB = object.getBoolean("trans_b").value_or(false);
  point.bias = object.getBoolean("bias").value_or(false);
  return true;
}

static bool readAttentionPoint(const json::Object &object,
                               AttentionPoint &point, json::Path path) {
  if (!readCount(object, "seq", point.seq, path, true) ||
      !readCount(object, "head_dim", point.headDim, path, true) ||
      !readPositive(object, "seconds", point.seconds, path, true) ||
      !requirePositive("seconds", point.seconds, path))
    return false;
  point.causal = object.getBoolean("causal").value_or(false);
  point.gradient = object.getBoolean("gradient").value_or(false);
  return true;
}

static bool readPackPoint(const json::Object &object, PackPoint &point,
                          json::Path path) {
  if (!readCount(object, "rows", point.rows, path, true) ||
      !readCount(object, "cols", point.cols, path, true) ||
      !readPositive(object, "seconds", point.seconds, path, true) ||
      !requirePositive("seconds", point.seconds, path))
    return false;
  point.trans = object.getBoolean("trans").value_or(false);
  return true;
}

static bool readStreamPoint(const json::Object &object,
                            std::pair<double, double> &point, json::Path path) {
  if (!readPositive(object, "bytes", point.first, path, true) ||
      !readPositive(object, "bytes_per_s", point.second, path, true))
    return false;
  return requirePositive("bytes_per_s", point.second, path);
}

/// Reads a list of objects.
template <typename Entry>
static bool readList(const json::Object &object, StringRef key,
                     std::vector<Entry> &list, json::Path path,
                     bool (*read)(const json::Object &, Entry &, json::Path)) {
  return readArray(object, key, path, kObjectExpected,
                   [&](const json::Object &entry, json::Path at) {
                     return read(entry, list.emplace_back(), at);
                   });
}

/// The rate and the points of an implementation of attention. A path's names
/// outlive what reads them.
struct AttentionKeys {
  StringLiteral rate, points;
};
static constexpr AttentionKeys kOwnAttention = {"attention_flops_per_s",
                                                "attention"};
static constexpr AttentionKeys kCudnnAttention = {"attention_cudnn_flops_per_s",
                                                  "attention_cudnn"};

static bool readAttention(const json::Object &object, const AttentionKeys &keys,
                          AttentionRates &rates, json::Path path) {
  return readPositive(object, keys.rate, rates.flopsPerSecond, path, false) &&
         requirePositive(keys.rate, rates.flopsPerSecond, path) &&
         readList(object, keys.points, rates.points, path, readAttentionPoint);
}

static bool readRates(const json::Object &object, ProductRates &rates,
                      json::Path path) {
  if (!readAttention(object, kOwnAttention, rates.attention, path))
    return false;
  if (object.get(kCudnnAttention.rate) || object.get(kCudnnAttention.points)) {
    rates.cudnnAttention.emplace().flopsPerSecond =
        rates.attention.flopsPerSecond;
    if (!readAttention(object, kCudnnAttention, *rates.cudnnAttention, path))
      return false;
  }
  return readPositive(object, "flops_per_s", rates.flopsPerSecond, path,
                      false) &&
         readPositive(object, "half_m", rates.halfM, path, false) &&
         readPositive(object, "half_n", rates.halfN, path, false) &&
         readPositive(object, "half_k", rates.halfK, path, false) &&
         requirePositive("flops_per_s", rates.flopsPerSecond, path) &&
         readList(object, "points", rates.points, path, readGemmPoint);
}

/// Reads the rates of a type other than f32.
static bool readType(const json::Object &object,
                     std::pair<std::string, ProductRates> &type,
                     json::Path path) {
  constexpr StringLiteral known[] = {"bf16", "f16", "tf32"};
  std::optional<StringRef> name = object.getString("type");
  if (!name || !llvm::is_contained(known, *name)) {
    path.field("type").report("expected bf16, f16 or tf32; the rates of f32 "
                              "are those of the entry itself");
    return false;
  }
  type.first = name->str();
  return readRates(object, type.second, path);
}

static bool readCompute(const json::Object &object, ComputeProfile &compute,
                        json::Path path) {
  if (!readCount(object, "threads", compute.threads, path, false) ||
      !readCount(object, "ranks", compute.ranks, path, false) ||
      !readCount(object, "cores", compute.cores, path, false, 0) ||
      !readPositive(object, "alpha_s", compute.gemmAlpha, path, false) ||
      !readPositive(object, "kernel_alpha_s", compute.kernelAlpha, path,
                    false) ||
      !readPositive(object, "bytes_per_s", compute.bytesPerSecond, path,
                    false) ||
      !readPositive(object, "cold_s_per_byte", compute.coldSecondsPerByte, path,
                    false) ||
      !readPositive(object, "vector_ops_per_s", compute.vectorOpsPerSecond,
                    path, false) ||
      !readPositive(object, "divisions_per_s", compute.divisionsPerSecond, path,
                    false) ||
      !readPositive(object, "scalar_ops_per_s", compute.scalarOpsPerSecond,
                    path, false) ||
      !requirePositive("bytes_per_s", compute.bytesPerSecond, path) ||
      !readRates(object, compute, path) ||
      !readList(object, "types", compute.otherTypes, path, readType) ||
      !readList(object, "packs", compute.packs, path, readPackPoint) ||
      !readList(object, "streams", compute.streams, path, readStreamPoint) ||
      !readList(object, "columns", compute.columns, path, readStreamPoint))
    return false;
  llvm::sort(compute.streams);
  llvm::sort(compute.columns);
  return true;
}

static bool readCollective(const json::Object &object, CollectiveProfile &entry,
                           json::Path path) {
  for (auto [key, text] : {std::pair("backend", &entry.backend),
                           std::pair("collective", &entry.collective)}) {
    std::optional<StringRef> found = object.getString(key);
    if (!found) {
      path.field(key).report("expected a string");
      return false;
    }
    *text = found->str();
  }
  if (!exec::symbolizeCollectiveKind(entry.collective)) {
    path.field("collective")
        .report("expected broadcast, reduce, all_reduce, all_gather or "
                "reduce_scatter");
    return false;
  }
  auto readPoint = [&](const json::Object &point, json::Path at) {
    auto &[bytes, seconds] = entry.points.emplace_back();
    return readPositive(point, "bytes", bytes, at, true) &&
           readPositive(point, "seconds", seconds, at, true);
  };
  if (!readCount(object, "ranks", entry.ranks, path, true, 2) ||
      !readPositive(object, "alpha_s", entry.alpha, path, true) ||
      !readPositive(object, "beta_s_per_byte", entry.beta, path, true) ||
      !readArray(object, "points", path,
                 "expected an object with bytes and seconds", readPoint))
    return false;
  llvm::sort(entry.points);
  entry.points.erase(
      llvm::unique(entry.points,
                   [](auto &a, auto &b) { return a.first == b.first; }),
      entry.points.end());
  return true;
}

static bool readTier(const json::Object &object, LinkTier &tier,
                     json::Path path) {
  return readCount(object, "ranks", tier.ranks, path, true) &&
         readPositive(object, "alpha_s", tier.alpha, path, true) &&
         readPositive(object, "beta_s_per_byte", tier.beta, path, true);
}

/// Each tier joins whole groups of the nearer one.
static bool readTiers(const json::Object &object, std::vector<LinkTier> &tiers,
                      json::Path path) {
  if (!readList(object, "links", tiers, path, readTier))
    return false;
  json::Path list = path.field("links");
  for (size_t i = 1; i < tiers.size(); ++i)
    if (tiers[i].ranks <= tiers[i - 1].ranks ||
        tiers[i].ranks % tiers[i - 1].ranks != 0) {
      json::Path at = list.index(i);
      at.field("ranks").report("expected a multiple of the ranks that the "
                               "links before join");
      return false;
    }
  return true;
}

static bool readGpu(const json::Object &object,
                    std::optional<GpuProfile> &profile, json::Path path) {
  const json::Value *member = object.get("gpu");
  if (!member)
    return true;
  json::Path at = path.field("gpu");
  const json::Object *gpu = member->getAsObject();
  if (!gpu) {
    at.report(kObjectExpected);
    return false;
  }
  profile.emplace();
  profile->name = gpu->getString("name").value_or("").str();
  profile->isFake = gpu->getBoolean("fake").value_or(false);
  if (profile->name.empty()) {
    at.field("name").report("expected the name of a GPU");
    return false;
  }
  if (!readCount(*gpu, "memory_bytes", profile->memoryBytes, at, true) ||
      !readCount(*gpu, "reserved_bytes", profile->reservedBytes, at, false, 0))
    return false;
  if (profile->reservedBytes >= profile->memoryBytes) {
    at.field("reserved_bytes").report("expected less than memory_bytes");
    return false;
  }
  return true;
}

static bool readHostLink(const json::Object &object,
                         std::optional<HostLink> &link, json::Path path) {
  const json::Value *member = object.get("host_link");
  if (!member)
    return true;
  json::Path at = path.field("host_link");
  const json::Object *read = member->getAsObject();
  if (!read) {
    at.report(kObjectExpected);
    return false;
  }
  link.emplace();
  return readPositive(*read, "in_bytes_per_s", link->in, at, true) &&
         requirePositive("in_bytes_per_s", link->in, at) &&
         readPositive(*read, "out_bytes_per_s", link->out, at, true) &&
         requirePositive("out_bytes_per_s", link->out, at) &&
         readPositive(*read, "alpha_s", link->alpha, at, false);
}

static bool readProfile(const json::Value &value, MachineProfile &profile,
                        json::Path path) {
  const json::Object *object = value.getAsObject();
  if (!object) {
    path.report(kObjectExpected);
    return false;
  }
  if (object->getInteger("version") != 1) {
    path.field("version").report("expected 1, the version that this compiler "
                                 "reads");
    return false;
  }
  auto readGemm = [&](const json::Object &entry, json::Path at) {
    return readCompute(entry, profile.computes.emplace_back(), at);
  };
  auto readComm = [&](const json::Object &entry, json::Path at) {
    return readCollective(entry, profile.collectives.emplace_back(), at);
  };
  if (!readArray(*object, "gemm", path, kObjectExpected, readGemm) ||
      !readArray(*object, "comm", path, kObjectExpected, readComm) ||
      !readTiers(*object, profile.tiers, path) ||
      !readGpu(*object, profile.gpu, path) ||
      !readHostLink(*object, profile.hostLink, path))
    return false;
  if (const json::Value *shared = object->get("axes_share_link")) {
    std::optional<bool> isShared = shared->getAsBoolean();
    if (!isShared) {
      path.field("axes_share_link").report("expected true or false");
      return false;
    }
    profile.axesShareLink = *isShared;
  }
  // GPUs talk over NCCL and processors over threads; a profile without either
  // is for its first back-end.
  StringRef usual = profile.gpu ? "nccl" : "local";
  bool hasUsual = llvm::any_of(profile.collectives, [&](const auto &entry) {
    return entry.backend == usual;
  });
  if (hasUsual)
    profile.backend = usual.str();
  else if (!profile.collectives.empty())
    profile.backend = profile.collectives.front().backend;
  return true;
}

llvm::Expected<MachineProfile> MachineProfile::parse(StringRef text,
                                                     StringRef name) {
  auto fail = [&](StringRef what) {
    return llvm::createStringError("machine profile '" + name + "': " + what +
                                   "; optimus-run bench --gemm and --comm "
                                   "write one");
  };
  // LLVM's parser recurses on nested values.
  if (optimus_support::Status nesting =
          optimus_support::checkNesting(text, name.str());
      !nesting.ok())
    return fail(nesting.message());
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return fail(llvm::toString(value.takeError()));
  MachineProfile profile;
  json::Path::Root root("profile");
  if (!readProfile(*value, profile, root))
    return fail(llvm::toString(root.getError()));
  return profile;
}

llvm::Expected<std::string> MachineProfile::readText(StringRef nameOrPath) {
  if (isKnownProfile(nameOrPath))
    return getKnownProfile(nameOrPath);
  constexpr size_t kMostBytes = size_t(64) << 20;
  optimus_support::StatusOr<std::string> text =
      optimus_support::readInput(nameOrPath.str(), kMostBytes);
  if (text.ok())
    return *std::move(text);
  // What is written like no file may be meant as a name.
  bool mayBeName = !nameOrPath.contains('/') && !nameOrPath.contains('.') &&
                   nameOrPath != "-";
  return llvm::createStringError(
      "machine profile '" + nameOrPath + "': " +
      (mayBeName ? explainKnownProfiles(nameOrPath) : text.status().message()));
}

llvm::Expected<MachineProfile> MachineProfile::load(StringRef nameOrPath) {
  if (nameOrPath.empty())
    return MachineProfile();
  llvm::Expected<std::string> text = readText(nameOrPath);
  if (!text)
    return text.takeError();
  return parse(*text, nameOrPath);
}
