//===- NvtxRecorder.cpp - A tool that listens to ranges -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: what NVTX_INJECTION64_PATH names. Writes each range's begin and
// end as a line of $OPTIMUS_NVTX_RECORD, "1 push optimus: train_step", with the
// thread's number.
//
//===----------------------------------------------------------------------===//

#include "base/NvtxApi.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace optrt::nvtx;

namespace optrt::nvtx {
struct DomainOpaque {
  std::string name;
};
} // namespace optrt::nvtx

static std::FILE *file() {
  static std::FILE *opened =
      std::fopen(std::getenv("OPTIMUS_NVTX_RECORD"), "w");
  return opened;
}

static int thread() {
  static std::atomic<int> last{0};
  static thread_local int number = ++last;
  return number;
}

static int push(Domain domain, const Attributes *attributes) {
  if (attributes->version != 3 || attributes->size != sizeof(Attributes) ||
      attributes->messageType != 1)
    std::abort();
  std::fprintf(file(), "%d push %s: %s\n", thread(), domain->name.c_str(),
               attributes->message);
  return 0;
}
static int pop(Domain domain) {
  std::fprintf(file(), "%d pop %s\n", thread(), domain->name.c_str());
  std::fflush(file());
  return 0;
}
static Domain create(const char *name) { return new DomainOpaque{name}; }

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(GetExportTable getExportTable) {
  const auto *version =
      static_cast<const VersionInfo *>(getExportTable(kVersionInfo));
  const auto *callbacks =
      static_cast<const Callbacks *>(getExportTable(kCallbacks));
  if (!std::getenv("OPTIMUS_NVTX_RECORD") || !version ||
      version->version != 3 || !callbacks ||
      callbacks->size != sizeof(Callbacks))
    return 0;
  Function **table = nullptr;
  unsigned size = 0;
  if (!callbacks->getModuleFunctionTable(kCore2, &table, &size) || size < 13)
    return 0;
  *table[kDomainRangePush] = reinterpret_cast<Function>(push);
  *table[kDomainRangePop] = reinterpret_cast<Function>(pop);
  *table[kDomainCreate] = reinterpret_cast<Function>(create);
  return 1;
}
