//===- NvmlApi.h - What is used of NVML -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types and functions of nvml.h, of driver 510 and later, for finding the
// holders of a GPU's memory; NvmlApiTest.cpp holds them against the header
// where that is there.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_NVMLAPI_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_NVMLAPI_H

#include <cstdint>

namespace optrt::cuda {

using NvmlResult = int; ///< nvmlReturn_t
using NvmlDevice = struct NvmlDeviceOpaque *;

enum : NvmlResult {
  kNvmlSuccess = 0,
  kNvmlInvalidArgument = 2,
  kNvmlNotFound = 6,
  kNvmlInsufficientSize = 7,
};

/// Bytes that NVML does not know: NVML_VALUE_NOT_AVAILABLE.
inline constexpr uint64_t kNvmlNotAvailable = ~uint64_t(0);

/// nvmlProcessInfo_t.
struct NvmlProcess {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
};
static_assert(sizeof(NvmlProcess) == 24);

/// Name here, NVML's own, parameters.
#define OPTRT_NVML_FUNCTIONS(X)                                                \
  X(init, nvmlInit_v2, ())                                                     \
  X(shutdown, nvmlShutdown, ())                                                \
  X(deviceByPciAddress, nvmlDeviceGetHandleByPciBusId_v2,                      \
    (const char *pciAddress, NvmlDevice *device))                              \
  X(computeProcesses, nvmlDeviceGetComputeRunningProcesses_v3,                 \
    (NvmlDevice device, unsigned *count, NvmlProcess *processes))              \
  X(processName, nvmlSystemGetProcessName,                                     \
    (unsigned pid, char *name, unsigned length))

/// NVML's functions, where they were found.
struct NvmlApi {
#define OPTRT_NVML_POINTER(name, symbol, parameters)                           \
  NvmlResult(*name) parameters;
  OPTRT_NVML_FUNCTIONS(OPTRT_NVML_POINTER)
#undef OPTRT_NVML_POINTER
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_NVMLAPI_H
