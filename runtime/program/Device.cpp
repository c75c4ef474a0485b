//===- Device.cpp - Opens the device plugins ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Device.h"

#include "base/Plugin.h"
#include "optimus-support/ResourceLimits.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

namespace optrt {

static constexpr Plugin kCpu = {
    "the processor's device", "liboptimus_device_cpu.so",
    "OPTIMUS_DEVICE_CPU_LIBRARY", "optimus_device_create",
    "it needs oneDNN and GNU OpenMP (Debian: libdnnl2, libgomp1)"};

static constexpr Plugin kCuda = {
    "the device on NVIDIA's GPUs", "liboptimus_device_cuda.so",
    "OPTIMUS_DEVICE_CUDA_LIBRARY", "optimus_device_create",
    "it is built with this program"};

/// How often a spinning thread pauses in so much time. A pause takes from 10 to
/// 60 ns, as the processor and its virtual machine have it. The least of
/// several measurements counts, since others may take the core meanwhile.
static int64_t countTurns(std::chrono::nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  constexpr int kMeasurements = 8, kTurns = 128;
  std::chrono::nanoseconds least = time;
  for (int i = 0; i != kMeasurements; ++i) {
    const Clock::time_point begin = Clock::now();
    for (int turn = 0; turn != kTurns; ++turn) {
#ifdef __x86_64__
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    least = std::min<std::chrono::nanoseconds>(least, Clock::now() - begin);
  }
  return kTurns * time / std::max(least, std::chrono::nanoseconds(kTurns));
}

/// GNU OpenMP reads its settings when it is loaded. By default its threads spin
/// for milliseconds before they block. A training step is hundreds of short
/// parallel regions, and where another process takes a core for a moment, or
/// ranks share cores, each of them then burns the time slice of the thread that
/// it waits for. So they spin for about as long as it takes to block and wake;
/// docs/optimus-run.md has the measurements.
static void chooseWaitPolicy() {
  constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(20);
  if (!std::getenv("OMP_WAIT_POLICY"))
    setenv("GOMP_SPINCOUNT", std::to_string(countTurns(kSpin)).c_str(),
           /*overwrite=*/0);
}

StatusOr<DeviceFactory> DeviceFactory::open(std::string_view name) {
  if (name != "cpu" && name != "cuda")
    return invalidArgument(concat("there is no device called ", name,
                                  "; this program has cpu and cuda"));
  const bool isCpu = name == "cpu";
  if (isCpu) {
    chooseWaitPolicy();
    // GNU OpenMP may bind this thread when it is loaded.
    (void)optimus_support::resourceLimits();
  }
  OPTRT_ASSIGN_OR_RETURN(void *entry, openPlugin(isCpu ? kCpu : kCuda));
  DeviceFactory factory(reinterpret_cast<CreateDeviceFn>(entry));
  // The first one makes what all share, best while nothing else takes memory.
  OPTRT_ASSIGN_OR_RETURN(const std::unique_ptr<Device> first,
                         factory.create(/*threads=*/1));
  OPTRT_ASSIGN_OR_RETURN(factory.visibleGpus, first->gpus());
  factory.foundEnvironment = first->environment();
  return factory;
}

StatusOr<std::unique_ptr<Device>> DeviceFactory::create(int threads,
                                                        int gpu) const {
  char error[512] = "";
  Device *device = createDevice(threads, gpu, error, sizeof(error));
  if (!device)
    return unavailable(concat("cannot make a rank's device: ", error));
  return std::unique_ptr<Device>(device);
}

} // namespace optrt
