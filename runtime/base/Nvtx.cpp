//===- Nvtx.cpp - Ranges for NVIDIA's tools -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nvtx.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>

namespace optrt {
namespace nvtx {
namespace {

constexpr std::size_t kNumModules = std::size(kNumFunctions);
constexpr std::size_t kMostFunctions =
    *std::max_element(std::begin(kNumFunctions), std::end(kNumFunctions));

/// The functions filled in by a tool's library, and where it finds them.
struct Functions {
  Functions() {
    for (std::size_t module = 0; module != kNumModules; ++module)
      for (std::size_t i = 1; i < kNumFunctions[module]; ++i)
        places[module][i] = &found[module][i];
  }
  template <typename Pointer>
  Pointer get(Core2 number) const {
    return reinterpret_cast<Pointer>(found[kCore2][number]);
  }

  Function found[kNumModules][kMostFunctions] = {};
  /// Null at the begin and behind the end.
  Function *places[kNumModules][kMostFunctions + 1] = {};
};

// Tools may call until the process ends.
Functions &functions() {
  static auto *all = new Functions();
  return *all;
}

int getModuleFunctionTable(int module, Function ***table,
                           unsigned *numFunctions) {
  if (module < kCore || module >= static_cast<int>(kNumModules))
    return 0;
  if (numFunctions)
    *numFunctions = kNumFunctions[module];
  if (table)
    *table = functions().places[module];
  return 1;
}

const void *getExportTable(uint32_t table) {
  static constexpr Callbacks callbacks{sizeof(Callbacks),
                                       getModuleFunctionTable};
  static constexpr VersionInfo version{sizeof(VersionInfo), 3, 0,
                                       [](uint32_t) {}};
  switch (table) {
  case kCallbacks:
    return &callbacks;
  case kVersionInfo:
    return &version;
  default:
    return nullptr;
  }
}

} // namespace
} // namespace nvtx

Status Nvtx::load(const char *path) {
  auto refuse = [&](const char *why) {
    return unavailable(concat("--nvtx: the tool's library `", path,
                              "`, which NVTX_INJECTION64_PATH names, ", why,
                              "; unset the variable, or start under the tool"));
  };
  void *library = dlopen(path, RTLD_LAZY);
  if (!library)
    return refuse("cannot be opened");
  auto initialize = reinterpret_cast<nvtx::InitializeInjection>(
      dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialize)
    return refuse("has no function InitializeInjectionNvtx2");
  if (initialize(nvtx::getExportTable) == 0)
    return refuse("does not start");
  if (auto create =
          nvtx::functions().get<nvtx::DomainCreate>(nvtx::kDomainCreate))
    domain = create("optimus");
  return okStatus();
}

StatusOr<const Nvtx *> Nvtx::open() {
  static const char *path = std::getenv("NVTX_INJECTION64_PATH");
  if (!path || !*path)
    return nullptr;
  static Nvtx listener;
  static const Status loaded = listener.load(path);
  OPTRT_RETURN_IF_ERROR(loaded);
  return &listener;
}

void Nvtx::push(const char *name) const {
  nvtx::Attributes attributes;
  attributes.message = name;
  if (auto push =
          nvtx::functions().get<nvtx::DomainRangePush>(nvtx::kDomainRangePush))
    push(domain, &attributes);
}

void Nvtx::pop() const {
  if (auto pop =
          nvtx::functions().get<nvtx::DomainRangePop>(nvtx::kDomainRangePop))
    pop(domain);
}

} // namespace optrt
