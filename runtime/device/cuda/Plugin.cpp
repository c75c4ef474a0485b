//===- Plugin.cpp - The device on NVIDIA's GPUs as a plugin ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include <cstdio>
#include <exception>

/// A GPU's device has no threads of the host's.
extern "C" __attribute__((visibility("default"))) optrt::Device *
optimus_device_create(int, int gpu, char *error, std::size_t errorSize) {
  try {
    auto device = optrt::cuda::CudaDevice::create(gpu);
    if (device.ok())
      return std::move(device).value().release();
    std::snprintf(error, errorSize, "%s", device.status().message().c_str());
  } catch (const std::exception &failure) {
    std::snprintf(error, errorSize, "%s", failure.what());
  }
  return nullptr;
}
