//===- FakeDriver.h - Functions of a fake driver ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEDRIVER_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEDRIVER_H

#include "FakeGpu.h"

using namespace optrt;
using namespace optrt::cuda;
using namespace optrt::cuda::fake;

// Their types are those that the device calls.
#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) Result symbol parameters;
OPTRT_CUDA_FUNCTIONS(OPTRT_FAKE_DECLARE)
OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_FAKE_DECLARE)

/// How most of them begin.
#define FAKE_ENTER                                                             \
  Gpu &gpu = Gpu::get();                                                       \
  std::lock_guard lock(gpu.mutex);                                             \
  if (optimus_fake_gpu_current() < 0)                                          \
    return gpu.refuse(kInvalidContext, "no context is the thread's");          \
  if (gpu.failed != kSuccess)                                                  \
  return gpu.failed

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEDRIVER_H
