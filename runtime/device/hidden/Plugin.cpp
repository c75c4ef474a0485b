//===- Plugin.cpp - The hidden device as a plugin -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HiddenDevice.h"

#include "optimus-runtime/CpuDevice.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

/// OPTIMUS_HIDDEN_SEED decides which turns queues take; every device of a
/// process takes others. OPTIMUS_HIDDEN_FLIP, as 9:64, lets a bit of byte 64 of
/// what each rank holds flip after 9 synchronizations. OPTIMUS_HIDDEN_FAIL, as
/// 3:norm, lets the third launch of the kernel norm fail.
extern "C" __attribute__((visibility("default"))) optrt::Device *
optimus_device_create(int threads, int, char *error, std::size_t errorSize) {
  try {
    static std::atomic<uint64_t> count{0};
    const char *chosen = std::getenv("OPTIMUS_HIDDEN_SEED");
    char *end = nullptr;
    const uint64_t seed = chosen ? std::strtoull(chosen, &end, 10) : 0;
    if (chosen && (end == chosen || *end)) {
      std::snprintf(error, errorSize,
                    "OPTIMUS_HIDDEN_SEED: expected a number, found '%s'",
                    chosen);
      return nullptr;
    }
    optrt::FlippedBit flipped;
    if (const char *flip = std::getenv("OPTIMUS_HIDDEN_FLIP"))
      std::sscanf(flip, "%" SCNu64 ":%" SCNd64, &flipped.synchronizations,
                  &flipped.byte);
    optrt::FailingLaunch failing;
    if (const char *fail = std::getenv("OPTIMUS_HIDDEN_FAIL")) {
      failing.number = std::strtoull(fail, &end, 10);
      failing.kernel = *end ? end + 1 : "";
    }
    auto kernels = std::make_unique<optrt::CpuDevice>(threads);
    if (optrt::Status started = kernels->start(); !started.ok()) {
      std::snprintf(error, errorSize, "%s", started.message().c_str());
      return nullptr;
    }
    return new optrt::HiddenDevice(std::move(kernels), seed * 1000 + count++,
                                   flipped, std::move(failing));
  } catch (const std::exception &failure) {
    std::snprintf(error, errorSize, "%s", failure.what());
    return nullptr;
  }
}
