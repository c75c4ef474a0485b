//===- LateFailures.cpp - What a GPU tells after the fact -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace optrt::cuda {

static std::atomic<int> numDevices = 0;
/// The device whose command was the first to fail when it was waited for.
static std::atomic<const CudaDevice *> culprit = nullptr;

static bool isBlockingChosen() {
  const char *chosen = std::getenv("CUDA_LAUNCH_BLOCKING");
  return chosen && std::string_view(chosen) == "1";
}

CudaDevice::CudaDevice(const Driver &driver)
    : driver(driver), isBlocking(isBlockingChosen()) {
  ++numDevices;
}

void CudaDevice::leave() {
  --numDevices;
  const CudaDevice *own = this;
  culprit.compare_exchange_strong(own, nullptr);
}

std::unique_lock<std::mutex> CudaDevice::takeTurn() const {
  static std::mutex turns;
  return isBlocking ? std::unique_lock(turns) : std::unique_lock<std::mutex>();
}

// The driver's own way to honour the variable knows launches alone.
Status CudaDevice::settle(Queue queue) {
  if (!isBlocking)
    return okStatus();
  const Status status =
      driver.check(driver.api().streamSynchronize(streamOf(queue)),
                   kDriverNames.streamSynchronize);
  const CudaDevice *none = nullptr;
  if (!status.ok())
    culprit.compare_exchange_strong(none, this);
  return status;
}

Result CudaDevice::lateFailure() const {
  size_t free = 0, total = 0;
  const Result entered = driver.api().contextSetCurrent(context);
  return entered == kSuccess ? driver.api().memGetInfo(&free, &total) : entered;
}

std::string CudaDevice::adviceOnLateFailure() const {
  const CudaDevice *known = culprit;
  if (lateFailure() == kSuccess || (isBlocking && (!known || known == this)))
    return "";
  return concat(numDevices == 1 ? ""
                                : "or another rank's, which shares the GPU; ",
                "run again with CUDA_LAUNCH_BLOCKING=1, which names the "
                "command");
}

} // namespace optrt::cuda
