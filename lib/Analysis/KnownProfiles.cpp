//===- KnownProfiles.cpp - Machine profiles of GPUs -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KnownProfiles.h"

#include "optimus/Analysis/MachineProfile.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

namespace {
struct KnownGpu {
  StringLiteral name;
  const char *profile; ///< of nodes of eight
};
} // namespace

static constexpr KnownGpu kGpus[] = {
#include "KnownProfiles.inc"
};
/// What nodes are sold with, and parts of them.
static constexpr int64_t kNodeSizes[] = {1, 2, 4, 8};

static std::string getName(const KnownGpu &gpu, int64_t nodeSize) {
  return nodeSize == 1 ? gpu.name.str()
                       : llvm::formatv("{0}x{1}", gpu.name, nodeSize).str();
}

/// The GPU of a name and how many a node has of it; null where nobody knows it.
static std::pair<const KnownGpu *, int64_t> find(StringRef name) {
  for (const KnownGpu &gpu : kGpus)
    for (int64_t size : kNodeSizes)
      if (getName(gpu, size) == name)
        return {&gpu, size};
  return {nullptr, 0};
}

bool mlir::optimus::isKnownProfile(StringRef name) { return find(name).first; }

std::string mlir::optimus::getKnownProfile(StringRef name) {
  auto [gpu, nodeSize] = find(name);
  json::Value profile = llvm::cantFail(json::parse(gpu->profile));
  json::Array &links = *profile.getAsObject()->getArray("links");
  (*links.front().getAsObject())["ranks"] = nodeSize;
  return llvm::formatv("{0}", profile);
}

std::string mlir::optimus::explainKnownProfiles(StringRef name) {
  std::vector<std::string> gpus, names;
  for (const KnownGpu &gpu : kGpus) {
    gpus.push_back(gpu.name.str());
    for (int64_t size : kNodeSizes)
      names.push_back(getName(gpu, size));
  }
  return llvm::formatv("no such file, and no profile that is known; known are "
                       "{0}, and nodes of 2, 4 or 8 of them, as {1}{2}",
                       llvm::join(gpus, ", "), kDefaultGpuProfile,
                       optimus_support::didYouMean(name.str(), names));
}
