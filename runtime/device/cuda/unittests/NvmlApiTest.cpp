//===- NvmlApiTest.cpp - Our declarations against NVML's own --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Built where NVML's header is. There is nothing to run.
//
//===----------------------------------------------------------------------===//

#include "FunctionShape.h"
#include "NvmlApi.h"

#include <nvml.h>

#include <cstddef>

using namespace optrt::cuda;

// Macros of the header stand for the newest version of a function.
#define CHECK(name, symbol, parameters)                                        \
  static_assert(isSame<decltype(NvmlApi::name), decltype(&::symbol)>, #symbol);
OPTRT_NVML_FUNCTIONS(CHECK)
#undef CHECK

#define SAME(ours, theirs) static_assert(int(ours) == int(theirs), #theirs)
SAME(kNvmlSuccess, NVML_SUCCESS);
SAME(kNvmlInvalidArgument, NVML_ERROR_INVALID_ARGUMENT);
SAME(kNvmlNotFound, NVML_ERROR_NOT_FOUND);
SAME(kNvmlInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE);
// The header's is -1, of no type with so many bits.
static_assert(kNvmlNotAvailable ==
              static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));

static_assert(sizeof(NvmlProcess) == sizeof(nvmlProcessInfo_t) &&
              offsetof(NvmlProcess, usedGpuMemory) ==
                  offsetof(nvmlProcessInfo_t, usedGpuMemory) &&
              offsetof(NvmlProcess, gpuInstanceId) ==
                  offsetof(nvmlProcessInfo_t, gpuInstanceId) &&
              offsetof(NvmlProcess, computeInstanceId) ==
                  offsetof(nvmlProcessInfo_t, computeInstanceId));
