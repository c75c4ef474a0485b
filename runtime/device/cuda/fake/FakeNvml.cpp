//===- FakeNvml.cpp - Who holds the memory of a fake GPU ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For tests: an NVML whose only GPU is the fake driver's first. Its processes
// are those of $OPTIMUS_FAKE_GPU_PROCESSES, each by number, name and bytes, "-"
// for what is not known and the number 0 for the process itself:
// "4711 /usr/bin/python3 1073741824 0 - 4096".
//
//===----------------------------------------------------------------------===//

#include "NvmlApi.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace optrt::cuda;

#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default")))                            \
  NvmlResult symbol parameters;
OPTRT_NVML_FUNCTIONS(OPTRT_FAKE_DECLARE)

struct optrt::cuda::NvmlDeviceOpaque {};

/// Who has it open: NVML counts inits and shutdowns, of all threads.
static std::atomic<int> numOpen = 0;

namespace {
struct Process {
  unsigned pid;
  std::string name, bytes;
};
} // namespace

static std::vector<Process> readProcesses() {
  const char *text = std::getenv("OPTIMUS_FAKE_GPU_PROCESSES");
  std::istringstream words(text ? text : "");
  std::vector<Process> processes;
  for (Process one; words >> one.pid >> one.name >> one.bytes;) {
    if (one.pid == 0)
      one.pid = unsigned(getpid());
    processes.push_back(one);
  }
  return processes;
}

NvmlResult nvmlInit_v2() {
  ++numOpen;
  return kNvmlSuccess;
}
NvmlResult nvmlShutdown() {
  --numOpen;
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char *pciAddress,
                                            NvmlDevice *device) {
  static NvmlDeviceOpaque only;
  *device = &only;
  return numOpen != 0 && std::string_view(pciAddress) == "0000:01:00.0"
             ? kNvmlSuccess
             : kNvmlNotFound;
}

NvmlResult nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device,
                                                   unsigned *count,
                                                   NvmlProcess *processes) {
  if (numOpen == 0 || !device)
    return kNvmlInvalidArgument;
  const std::vector<Process> known = readProcesses();
  const bool fits = *count >= known.size();
  *count = unsigned(known.size());
  if (!fits)
    return kNvmlInsufficientSize;
  for (const Process &one : known)
    *processes++ = {one.pid,
                    one.bytes == "-"
                        ? kNvmlNotAvailable
                        : std::strtoull(one.bytes.c_str(), nullptr, 10),
                    ~0u, ~0u};
  return kNvmlSuccess;
}

NvmlResult nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
  for (const Process &one : readProcesses())
    if (one.pid == pid && one.name != "-") {
      std::strncpy(name, one.name.c_str(), length - 1);
      return kNvmlSuccess;
    }
  return kNvmlNotFound;
}
