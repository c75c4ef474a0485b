//===- MachineProfile.cpp - What a machine was measured to do -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MachineProfile.h"

#include "optimus-support/FileLock.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sys/stat.h>

using optimus_support::FileLock;
using Json = nlohmann::ordered_json;

namespace optrt {
namespace {

/// Of the profiles that we write; a point of a measurement takes 100 bytes.
constexpr std::size_t kMostBytes = std::size_t(64) << 20;
/// Those have four levels; printing a million would overflow the stack.
constexpr int kMostLevels = 64;

StatusOr<Json> readProfile(const std::string &path) {
  struct stat info;
  // A device or a pipe gets a profile of its own.
  if (path == "-" || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return Json{{"version", kMachineProfileVersion}};
  OPTRT_ASSIGN_OR_RETURN(std::string text,
                         optimus_support::readInput(path, kMostBytes));
  bool tooDeep = false;
  Json profile = Json::parse(
      text,
      [&](int level, Json::parse_event_t, Json &) {
        tooDeep |= level > kMostLevels;
        return !tooDeep;
      },
      /*allow_exceptions=*/false);
  auto refuse = [&](const std::string &what) {
    return invalidArgument(concat("`", path, "` is no machine profile: ", what,
                                  "; name another file or remove this one"));
  };
  if (tooDeep)
    return refuse(concat("its values lie more than ", kMostLevels, " deep"));
  if (!profile.is_object())
    return refuse("expected a JSON object");
  auto version = profile.find("version");
  if (version == profile.end() || *version != kMachineProfileVersion)
    return refuse(concat("expected \"version\": ", kMachineProfileVersion,
                         ", found ",
                         version == profile.end() ? "none" : version->dump()));
  return profile;
}

/// "processors", or the name of a GPU.
std::string machineOf(const Json &gpu) {
  return gpu.is_object() && gpu.contains("name") ? gpu["name"].dump()
                                                 : "processors";
}

/// That a profile is of the same machine, if anything is in it.
Status checkGpu(const std::string &path, const Json &profile, const Json &gpu) {
  const bool isEmpty = !profile.contains("gemm") && !profile.contains("comm");
  const std::string found = machineOf(profile.value("gpu", Json())),
                    measured = machineOf(gpu);
  return isEmpty || found == measured
             ? okStatus()
             : invalidArgument(concat("--profile: `", path, "` is of ", found,
                                      ", but this measures ", measured,
                                      "; name another file"));
}

bool sameKeys(const Json &a, const Json &b, std::span<const char *const> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char *key) {
    return a.is_object() && a.contains(key) && a[key] == b[key];
  });
}

/// Waits some seconds for whoever else merges something: the measurements must
/// not be lost to a conflict.
StatusOr<FileLock> lockProfile(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(path, error), error);
  // Nothing can be merged into a device.
  if (error || (fs::exists(target, error) && !fs::is_regular_file(target)))
    return FileLock();
  return FileLock::acquire(optimus_support::hiddenSibling(target, "lock"),
                           concat("the machine profile ", path),
                           std::chrono::seconds(5));
}

/// Reads a profile, if there is one, lets `change` change it and writes it
/// back.
template <typename Change>
Status changeProfile(const std::string &path, Change change) {
  // Another measurement may be merging its results.
  OPTRT_ASSIGN_OR_RETURN(FileLock lock, lockProfile(path));
  OPTRT_ASSIGN_OR_RETURN(Json profile, readProfile(path));
  OPTRT_RETURN_IF_ERROR(change(profile));
  return optimus_support::OutputFile::write(path, profile.dump(2) + "\n")
      .withContext("--profile");
}

} // namespace

Status checkMachineProfile(const std::string &path, const Json &gpu) {
  OPTRT_RETURN_IF_ERROR(
      optimus_support::checkOutput(path).withContext("--profile"));
  OPTRT_ASSIGN_OR_RETURN(Json profile, readProfile(path));
  return checkGpu(path, profile, gpu);
}

Status replaceInMachineProfile(const std::string &path,
                               const std::string &section, const Json &value) {
  return changeProfile(path, [&](Json &profile) {
    profile[section] = value;
    return okStatus();
  });
}

Status mergeIntoMachineProfile(const std::string &path,
                               const std::string &section, const Json &entries,
                               std::span<const char *const> keys,
                               const Json &gpu) {
  return changeProfile(path, [&](Json &profile) -> Status {
    OPTRT_RETURN_IF_ERROR(checkGpu(path, profile, gpu));
    if (!gpu.is_null())
      profile["gpu"] = gpu;
    Json merged = Json::array();
    if (profile.contains(section))
      for (const Json &old : profile[section])
        if (std::none_of(
                entries.begin(), entries.end(),
                [&](const Json &entry) { return sameKeys(old, entry, keys); }))
          merged.push_back(old);
    for (const Json &entry : entries)
      merged.push_back(entry);
    profile[section] = std::move(merged);
    return okStatus();
  });
}

LinearCost fitLinearCost(std::span<const CostPoint> points) {
  // With weights 1/t² the normal equations are those of the rows
  // (1/t, x/t) · (alpha, beta) = 1.
  double s11 = 0, s1x = 0, sxx = 0, r1 = 0, rx = 0;
  for (const CostPoint &point : points) {
    double u = 1 / point.seconds, v = point.bytes / point.seconds;
    s11 += u * u;
    s1x += u * v;
    sxx += v * v;
    r1 += u;
    rx += v;
  }
  double determinant = s11 * sxx - s1x * s1x;
  // One size says nothing of the slope.
  if (determinant <= 1e-12 * s11 * sxx)
    return {r1 / s11, 0};
  LinearCost fit{(r1 * sxx - rx * s1x) / determinant,
                 (s11 * rx - s1x * r1) / determinant};
  if (fit.alphaSeconds < 0)
    return {0, rx / sxx};
  if (fit.betaSecondsPerByte < 0)
    return {r1 / s11, 0};
  return fit;
}

} // namespace optrt
