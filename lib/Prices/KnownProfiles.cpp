//===- KnownProfiles.cpp - Machine profiles of GPUs -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KnownProfiles.h"

#include "optimus/Prices/ReadMachineProfile.h"

#include "optimus-support/NearestName.h"

#include <nlohmann/json.hpp>

using optimus_support::concat;

namespace optimus_prices {

namespace {
struct KnownGpu {
  const char *name;
  const char *profile; ///< of nodes of eight
};
} // namespace

static constexpr KnownGpu kGpus[] = {
#include "KnownProfiles.inc"
};
/// What nodes are sold with, and parts of them.
static constexpr int64_t kNodeSizes[] = {1, 2, 4, 8};

static std::string getName(const KnownGpu &gpu, int64_t nodeSize) {
  return nodeSize == 1 ? gpu.name : concat(gpu.name, "x", nodeSize);
}

/// The GPU of a name and how many a node has of it; null where nobody knows it.
static std::pair<const KnownGpu *, int64_t> find(std::string_view name) {
  for (const KnownGpu &gpu : kGpus)
    for (int64_t size : kNodeSizes)
      if (getName(gpu, size) == name)
        return {&gpu, size};
  return {nullptr, 0};
}

bool isKnownProfile(std::string_view name) { return find(name).first; }

std::string getKnownProfile(std::string_view name) {
  auto [gpu, nodeSize] = find(name);
  auto profile = nlohmann::json::parse(gpu->profile);
  profile["links"][0]["ranks"] = nodeSize;
  return profile.dump();
}

std::string explainKnownProfiles(std::string_view name) {
  std::string gpus;
  std::vector<std::string> names;
  for (const KnownGpu &gpu : kGpus) {
    gpus += concat(gpus.empty() ? "" : ", ", gpu.name);
    for (int64_t size : kNodeSizes)
      names.push_back(getName(gpu, size));
  }
  return concat("no such file, and no profile that is known; known are ", gpus,
                ", and nodes of 2, 4 or 8 of them, as ", kDefaultGpuProfile,
                optimus_support::didYouMean(name, names));
}

} // namespace optimus_prices
