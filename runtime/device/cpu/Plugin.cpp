//===- Plugin.cpp - The processor's device as a plugin --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include <cstdio>
#include <exception>
#include <memory>

extern "C" __attribute__((visibility("default"))) optrt::Device *
optimus_device_create(int threads, int, char *error, std::size_t errorSize) {
  // oneDNN reports by exceptions what it cannot set up.
  try {
    auto device = std::make_unique<optrt::CpuDevice>(threads);
    if (optrt::Status started = device->start(); !started.ok()) {
      std::snprintf(error, errorSize, "%s", started.message().c_str());
      return nullptr;
    }
    return device.release();
  } catch (const std::exception &failure) {
    std::snprintf(error, errorSize, "%s", failure.what());
    return nullptr;
  }
}
