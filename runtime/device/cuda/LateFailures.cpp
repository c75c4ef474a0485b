//===- LateFailures.cpp - What a GPU tells after the fact -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <string_view>

namespace optrt::cuda {

static constexpr int64_t kNotKnown = -1;

struct CudaDevice::Shared {
  std::mutex turns;
  std::atomic<int> numDevices = 0;
  /// Whose command was the first to fail when it was waited for.
  std::atomic<const CudaDevice *> culprit = nullptr;
  /// Free and allocated bytes are of one moment under it.
  std::mutex counting;
  /// The free bytes before the first of the devices, and their allocations now.
  int64_t freeBefore = kNotKnown, allocated = 0;
};

static bool isBlockingChosen() {
  const char *chosen = std::getenv("CUDA_LAUNCH_BLOCKING");
  return chosen && std::string_view(chosen) == "1";
}

CudaDevice::CudaDevice(const Driver &driver)
    : driver(driver), isBlocking(isBlockingChosen()) {}

void CudaDevice::share() {
  static std::mutex mutex;
  static std::map<DeviceNumber, Shared> all;
  std::lock_guard lock(mutex);
  shared = &all[number];
  if (shared->numDevices++ == 0) {
    std::lock_guard counting(shared->counting);
    shared->freeBefore = kNotKnown;
  }
}

// Whoever comes first finds the GPU with its context alone.
Status CudaDevice::noteFree() {
  std::lock_guard counting(shared->counting);
  OPTRT_ASSIGN_OR_RETURN(const int64_t free, freeBytes());
  if (shared->freeBefore == kNotKnown)
    shared->freeBefore = free + shared->allocated;
  return okStatus();
}

Result CudaDevice::allocateCounted(Address &address, int64_t bytes) {
  std::lock_guard counting(shared->counting);
  const Result result = driver.api().memAlloc(&address, size_t(bytes));
  if (result == kSuccess)
    shared->allocated += bytes;
  return result;
}

Result CudaDevice::freeCounted(Address address, int64_t bytes) {
  std::lock_guard counting(shared->counting);
  shared->allocated -= bytes;
  return driver.api().memFree(address);
}

int64_t CudaDevice::codeBytes() const {
  std::lock_guard counting(shared->counting);
  StatusOr<int64_t> free = freeBytes();
  return free.ok() ? std::max<int64_t>(0, shared->freeBefore - *free -
                                              shared->allocated)
                   : 0;
}

void CudaDevice::leave() {
  if (!shared)
    return;
  --shared->numDevices;
  const CudaDevice *own = this;
  shared->culprit.compare_exchange_strong(own, nullptr);
}

std::unique_lock<std::mutex> CudaDevice::takeTurn() const {
  return isBlocking ? std::unique_lock(shared->turns)
                    : std::unique_lock<std::mutex>();
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
    shared->culprit.compare_exchange_strong(none, this);
  return status;
}

Result CudaDevice::lateFailure() const {
  size_t free = 0, total = 0;
  const Result entered = driver.api().contextSetCurrent(context);
  return entered == kSuccess ? driver.api().memGetInfo(&free, &total) : entered;
}

std::string CudaDevice::adviceOnLateFailure() const {
  const CudaDevice *known = shared->culprit;
  if (lateFailure() == kSuccess || (isBlocking && (!known || known == this)))
    return "";
  return concat(shared->numDevices == 1
                    ? ""
                    : "or another rank's, which shares the GPU; ",
                "run again with CUDA_LAUNCH_BLOCKING=1, which names the "
                "command");
}

} // namespace optrt::cuda
