//===- MachineProfile.cpp - What a machine was measured to do -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MachineProfile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace optrt;
using Json = nlohmann::ordered_json;

namespace optimus_run {
namespace {

StatusOr<Json> readProfile(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Json{{"version", kMachineProfileVersion}};
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return unavailable(concat("cannot read the machine profile `", path,
                              "`: ", std::strerror(errno)));
  Json profile = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  auto refuse = [&](const std::string &what) {
    return invalidArgument(concat("`", path, "` is no machine profile: ", what,
                                  "; name another file or remove this one"));
  };
  if (!profile.is_object())
    return refuse("expected a JSON object");
  auto version = profile.find("version");
  if (version == profile.end() || *version != kMachineProfileVersion)
    return refuse(concat("expected \"version\": ", kMachineProfileVersion,
                         ", found ",
                         version == profile.end() ? "none" : version->dump()));
  return profile;
}

bool sameKeys(const Json &a, const Json &b, std::span<const char *const> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char *key) {
    return a.is_object() && a.contains(key) && a[key] == b[key];
  });
}

} // namespace

Status checkMachineProfile(const std::string &path) {
  return readProfile(path).status();
}

Status mergeIntoMachineProfile(const std::string &path,
                               const std::string &section, const Json &entries,
                               std::span<const char *const> keys) {
  OPTRT_ASSIGN_OR_RETURN(Json profile, readProfile(path));
  Json merged = Json::array();
  if (profile.contains(section))
    for (const Json &old : profile[section])
      if (std::none_of(entries.begin(), entries.end(), [&](const Json &entry) {
            return sameKeys(old, entry, keys);
          }))
        merged.push_back(old);
  for (const Json &entry : entries)
    merged.push_back(entry);
  profile[section] = std::move(merged);

  std::string beside = concat(path, ".", getpid());
  std::ofstream file(beside, std::ios::binary);
  file << profile.dump(2) << '\n';
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    Status status = unavailable(concat("cannot write the machine profile `",
                                       path, "`: ", std::strerror(errno)));
    std::remove(beside.c_str());
    return status;
  }
  return okStatus();
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

} // namespace optimus_run
