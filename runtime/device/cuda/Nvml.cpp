//===- Nvml.cpp - Who holds the memory of a GPU ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nvml.h"

#include "NvmlApi.h"

#include "optimus-support/DynamicLibrary.h"

#include <algorithm>
#include <memory>

using optimus_support::DynamicLibrary;

namespace optrt::cuda {

static StatusOr<NvmlApi> openNvml() {
  OPTRT_ASSIGN_OR_RETURN(const DynamicLibrary library,
                         DynamicLibrary::open({"NVML",
                                               "OPTIMUS_NVML_LIBRARY",
                                               {"libnvidia-ml.so.1"},
                                               "it comes with the driver"}));
  NvmlApi api = {};
#define OPTRT_NVML_LOAD(name, symbol, parameters)                              \
  OPTRT_RETURN_IF_ERROR(library.find(#symbol, api.name));
  OPTRT_NVML_FUNCTIONS(OPTRT_NVML_LOAD)
#undef OPTRT_NVML_LOAD
  return api;
}

static Status checkNvml(NvmlResult result, const char *call) {
  return result == kNvmlSuccess
             ? okStatus()
             : unavailable(concat(call, " ended with ", result));
}

/// Processes come and go between two calls.
static StatusOr<std::vector<NvmlProcess>> processesOf(const NvmlApi &api,
                                                      NvmlDevice device) {
  std::vector<NvmlProcess> processes;
  while (true) {
    auto count = static_cast<unsigned>(processes.size());
    const NvmlResult result =
        api.computeProcesses(device, &count, processes.data());
    if (result == kNvmlInsufficientSize && count > processes.size()) {
      processes.resize(count + 8);
      continue;
    }
    OPTRT_RETURN_IF_ERROR(
        checkNvml(result, "nvmlDeviceGetComputeRunningProcesses_v3"));
    processes.resize(count);
    return processes;
  }
}

static MemoryHolder holderOf(const NvmlApi &api, const NvmlProcess &process) {
  MemoryHolder holder{process.pid, "", std::nullopt};
  if (process.usedGpuMemory != kNvmlNotAvailable)
    holder.bytes = int64_t(process.usedGpuMemory);
  char name[256] = "";
  // In a container, names of processes outside are not known.
  if (api.processName(process.pid, name, sizeof(name)) == kNvmlSuccess)
    holder.name = name;
  holder.name.erase(0, holder.name.rfind('/') + 1);
  return holder;
}

StatusOr<std::vector<MemoryHolder>> findMemoryHolders(const char *pciAddress) {
  OPTRT_ASSIGN_OR_RETURN(const NvmlApi api, openNvml());
  OPTRT_RETURN_IF_ERROR(checkNvml(api.init(), "nvmlInit_v2"));
  const std::unique_ptr<const NvmlApi, void (*)(const NvmlApi *)> session(
      &api, [](const NvmlApi *open) { open->shutdown(); });
  NvmlDevice device = nullptr;
  OPTRT_RETURN_IF_ERROR(checkNvml(api.deviceByPciAddress(pciAddress, &device),
                                  "nvmlDeviceGetHandleByPciBusId_v2"));
  OPTRT_ASSIGN_OR_RETURN(const std::vector<NvmlProcess> processes,
                         processesOf(api, device));
  std::vector<MemoryHolder> holders;
  for (const NvmlProcess &process : processes)
    holders.push_back(holderOf(api, process));
  std::stable_sort(
      holders.begin(), holders.end(),
      [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  return holders;
}

} // namespace optrt::cuda
