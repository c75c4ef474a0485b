//===- SeededBugs.cpp - A device with a bug, for tests --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libseeded_bugs.so stands between a device and the fake driver and cuBLASLt.
// Calls go through as they are, but for those of the one bug that
// $OPTIMUS_SEEDED_BUG names: the fake GPU then sees the calls of a device with
// that bug. Without the variable it changes nothing.
//
//===----------------------------------------------------------------------===//

#include "CublasLtApi.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

using namespace optrt::cuda;

// Whoever looks for what is not defined here finds it in the libraries behind.
#define OPTRT_SEEDED_DECLARE(name, symbol, parameters)                         \
  extern "C" __attribute__((visibility("default"))) int symbol parameters;
OPTRT_CUDA_FUNCTIONS(OPTRT_SEEDED_DECLARE)
OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_SEEDED_DECLARE)
OPTRT_CUBLASLT_FUNCTIONS(OPTRT_SEEDED_DECLARE)

/// The function of this name in the library behind.
#define BEHIND(symbol)                                                         \
  reinterpret_cast<decltype(&(symbol))>(dlsym(RTLD_NEXT, #symbol))

static bool isSeeded(std::string_view bug) {
  const char *chosen = std::getenv("OPTIMUS_SEEDED_BUG");
  return chosen && bug == chosen;
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

/// Who made a stream, and the stream where an event was recorded last: a rank
/// is a thread.
static std::mutex ranksMutex;
static std::map<Stream, std::thread::id> rankOf;
static std::map<EventHandle, std::thread::id> recordedBy;

Result cuEventRecord(EventHandle event, Stream stream) {
  {
    std::lock_guard lock(ranksMutex);
    recordedBy[event] = rankOf[stream];
  }
  return BEHIND(cuEventRecord)(event, stream);
}

Result cuStreamWaitEvent(Stream stream, EventHandle event, unsigned flags) {
  auto isOfAnother = [&] {
    std::lock_guard lock(ranksMutex);
    return recordedBy[event] != rankOf[stream];
  };
  return isSeeded("missing event") ||
                 (isSeeded("missing event between ranks") && isOfAnother())
             ? kSuccess
             : BEHIND(cuStreamWaitEvent)(stream, event, flags);
}

/// Host code takes the device's memory for pinned memory.
Result cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  if (!isSeeded("host access"))
    return BEHIND(cuMemHostAlloc)(address, bytes, flags);
  Address device = 0;
  const Result result = BEHIND(cuMemAlloc_v2)(&device, bytes);
  *address = reinterpret_cast<void *>(device);
  return result;
}

/// The device goes on, and gives memory back, before the GPU is done.
Result cuStreamSynchronize(Stream stream) {
  return isSeeded("free in flight") ? kSuccess
                                    : BEHIND(cuStreamSynchronize)(stream);
}

/// Kernels are loaded when they are launched.
Result cuFuncLoad(Function function) {
  return isSeeded("lazy loading") ? kSuccess : BEHIND(cuFuncLoad)(function);
}

static std::atomic<Stream> latestStream{nullptr};
Result cuStreamCreate(Stream *stream, unsigned flags) {
  const Result result = BEHIND(cuStreamCreate)(stream, flags);
  latestStream = *stream;
  std::lock_guard lock(ranksMutex);
  rankOf[*stream] = std::this_thread::get_id();
  return result;
}

Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, Stream stream,
                      void **params, void **extra) {
  if (isSeeded("allocation in capture")) {
    Address scratch = 0;
    if (Result result = BEHIND(cuMemAlloc_v2)(&scratch, 256))
      return result;
    BEHIND(cuMemFree_v2)(scratch);
  }
  return BEHIND(cuLaunchKernel)(
      function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes,
      isSeeded("wrong stream") ? latestStream.load() : stream, params, extra);
}

//===----------------------------------------------------------------------===//
// cuBLASLt
//===----------------------------------------------------------------------===//

LtResult cublasLtMatmulDescSetAttribute(LtOperation operation, int attribute,
                                        const void *value, size_t bytes) {
  static constexpr uint32_t none = kLtNoEpilogue;
  if (attribute == kLtEpilogue && isSeeded("wrong epilogue"))
    value = &none;
  return BEHIND(cublasLtMatmulDescSetAttribute)(operation, attribute, value,
                                                bytes);
}

/// Whatever is fastest.
LtResult cublasLtMatmulPreferenceSetAttribute(LtPreference preference,
                                              int attribute, const void *value,
                                              size_t bytes) {
  return attribute == kLtReductionSchemes && isSeeded("any reduction")
             ? kLtSuccess
             : BEHIND(cublasLtMatmulPreferenceSetAttribute)(
                   preference, attribute, value, bytes);
}

LtResult cublasLtMatmul(LtHandle handle, LtOperation operation,
                        const void *alpha, const void *a, LtLayout layoutA,
                        const void *b, LtLayout layoutB, const void *beta,
                        const void *c, LtLayout layoutC, void *d,
                        LtLayout layoutD, const LtAlgorithm *algorithm,
                        void *workspace, size_t workspaceBytes, Stream stream) {
  if (isSeeded("misaligned workspace"))
    workspace = static_cast<char *>(workspace) + 128;
  return BEHIND(cublasLtMatmul)(handle, operation, alpha, a, layoutA, b,
                                layoutB, beta, c, layoutC, d, layoutD,
                                algorithm, workspace, workspaceBytes, stream);
}
