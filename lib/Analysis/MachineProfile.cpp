//===- MachineProfile.cpp - What a machine was measured to do ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/MachineProfile.h"

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

/// JSON numbers have no infinity, but 1e999 reads as one.
static bool readPositive(const json::Object &object, StringRef key,
                         double &value, json::Path path, bool isRequired) {
  const json::Value *member = object.get(key);
  if (!member) {
    if (isRequired)
      path.field(key).report("missing");
    return !isRequired;
  }
  std::optional<double> number = member->getAsNumber();
  if (!number || !std::isfinite(*number) || *number < 0) {
    path.field(key).report("expected a finite number from 0");
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
    path.field(key).report(least == 0 ? "expected an integer from 0"
                                      : "expected an integer from 1");
    return false;
  }
  value = *number;
  return true;
}

static bool readGemmPoint(const json::Value &value, GemmPoint &point,
                          json::Path path) {
  const json::Object *object = value.getAsObject();
  if (!object) {
    path.report("expected an object");
    return false;
  }
  if (!readCount(*object, "m", point.m, path, true) ||
      !readCount(*object, "n", point.n, path, true) ||
      !readCount(*object, "k", point.k, path, true) ||
      !readPositive(*object, "seconds", point.seconds, path, true))
    return false;
  if (point.seconds == 0) {
    path.field("seconds").report("expected more than 0");
    return false;
  }
  point.transA = object->getBoolean("trans_a").value_or(false);
  point.transB = object->getBoolean("trans_b").value_or(false);
  return true;
}

static bool readCompute(const json::Value &value, ComputeProfile &compute,
                        json::Path path) {
  const json::Object *object = value.getAsObject();
  if (!object) {
    path.report("expected an object");
    return false;
  }
  if (!readCount(*object, "threads", compute.threads, path, false) ||
      !readCount(*object, "cores", compute.cores, path, false, 0) ||
      !readPositive(*object, "alpha_s", compute.gemmAlpha, path, false) ||
      !readPositive(*object, "flops_per_s", compute.flopsPerSecond, path,
                    false) ||
      !readPositive(*object, "kernel_alpha_s", compute.kernelAlpha, path,
                    false) ||
      !readPositive(*object, "bytes_per_s", compute.bytesPerSecond, path,
                    false) ||
      !readPositive(*object, "attention_flops_per_s",
                    compute.attentionFlopsPerSecond, path, false))
    return false;
  for (auto [key, rate] :
       {std::pair("flops_per_s", compute.flopsPerSecond),
        std::pair("bytes_per_s", compute.bytesPerSecond),
        std::pair("attention_flops_per_s", compute.attentionFlopsPerSecond)})
    if (rate == 0) {
      path.field(key).report("expected more than 0");
      return false;
    }
  const json::Value *points = object->get("points");
  if (!points)
    return true;
  const json::Array *array = points->getAsArray();
  if (!array) {
    path.field("points").report("expected an array");
    return false;
  }
  for (auto [index, entry] : llvm::enumerate(*array)) {
    GemmPoint point;
    if (!readGemmPoint(entry, point, path.field("points").index(index)))
      return false;
    compute.points.push_back(point);
  }
  return true;
}

static bool readPoints(const json::Object &object, CollectiveProfile &entry,
                       json::Path path) {
  const json::Value *points = object.get("points");
  if (!points)
    return true;
  const json::Array *array = points->getAsArray();
  if (!array) {
    path.field("points").report("expected an array");
    return false;
  }
  for (auto [index, value] : llvm::enumerate(*array)) {
    json::Path at = path.field("points").index(index);
    const json::Object *point = value.getAsObject();
    if (!point) {
      at.report("expected an object with bytes and seconds");
      return false;
    }
    double bytes, seconds;
    if (!readPositive(*point, "bytes", bytes, at, true) ||
        !readPositive(*point, "seconds", seconds, at, true))
      return false;
    entry.points.push_back({bytes, seconds});
  }
  llvm::sort(entry.points);
  entry.points.erase(
      llvm::unique(entry.points,
                   [](auto &a, auto &b) { return a.first == b.first; }),
      entry.points.end());
  return true;
}

static bool readCollective(const json::Value &value, CollectiveProfile &entry,
                           json::Path path) {
  const json::Object *object = value.getAsObject();
  if (!object) {
    path.report("expected an object");
    return false;
  }
  for (auto [key, text] : {std::pair("backend", &entry.backend),
                           std::pair("collective", &entry.collective)}) {
    std::optional<StringRef> found = object->getString(key);
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
  return readCount(*object, "ranks", entry.ranks, path, true, 2) &&
         readPositive(*object, "alpha_s", entry.alpha, path, true) &&
         readPositive(*object, "beta_s_per_byte", entry.beta, path, true) &&
         readPoints(*object, entry, path);
}

static bool readProfile(const json::Value &value, MachineProfile &profile,
                        json::Path path) {
  const json::Object *object = value.getAsObject();
  if (!object) {
    path.report("expected an object");
    return false;
  }
  if (object->getInteger("version") != 1) {
    path.field("version").report("expected 1, the version that this compiler "
                                 "reads");
    return false;
  }
  auto readEach = [&](StringRef section, auto readEntry) {
    const json::Value *member = object->get(section);
    if (!member)
      return true;
    const json::Array *array = member->getAsArray();
    if (!array) {
      path.field(section).report("expected an array");
      return false;
    }
    for (auto [index, entry] : llvm::enumerate(*array))
      if (!readEntry(entry, path.field(section).index(index)))
        return false;
    return true;
  };
  auto readGemm = [&](const json::Value &entry, json::Path at) {
    return readCompute(entry, profile.computes.emplace_back(), at);
  };
  auto readComm = [&](const json::Value &entry, json::Path at) {
    return readCollective(entry, profile.collectives.emplace_back(), at);
  };
  if (!readEach("gemm", readGemm) || !readEach("comm", readComm))
    return false;
  if (const json::Value *shared = object->get("axes_share_link")) {
    std::optional<bool> isShared = shared->getAsBoolean();
    if (!isShared) {
      path.field("axes_share_link").report("expected true or false");
      return false;
    }
    profile.axesShareLink = *isShared;
  }
  // The back-end of a profile that has none for threads is its first one.
  bool hasLocal = llvm::any_of(profile.collectives, [](const auto &entry) {
    return entry.backend == "local";
  });
  if (!hasLocal && !profile.collectives.empty())
    profile.backend = profile.collectives.front().backend;
  return true;
}

llvm::Expected<MachineProfile> MachineProfile::parse(StringRef text,
                                                     StringRef name) {
  auto fail = [&](llvm::Error error) {
    return llvm::createStringError(
        llvm::Twine("machine profile '") + name +
        "': " + llvm::toString(std::move(error)) +
        "; optimus-run bench --gemm and --comm write one");
  };
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return fail(value.takeError());
  MachineProfile profile;
  json::Path::Root root("profile");
  if (!readProfile(*value, profile, root))
    return fail(root.getError());
  return profile;
}

llvm::Expected<MachineProfile> MachineProfile::load(StringRef path) {
  if (path.empty())
    return MachineProfile();
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return llvm::createStringError(llvm::Twine("machine profile '") + path +
                                   "': " + file.getError().message());
  return parse((*file)->getBuffer(), path);
}
