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
#include <string>
#include <string_view>
#include <thread>
#include <vector>

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

//===----------------------------------------------------------------------===//
// Generation
//===----------------------------------------------------------------------===//

/// Where the device's memory begins and ends, and the kernels that append to a
/// cache.
static std::mutex placesMutex;
static std::map<Address, Address> endOf;
static std::map<Function, std::string> nameOf;

Result cuMemAlloc_v2(Address *address, size_t bytes) {
  const Result result = BEHIND(cuMemAlloc_v2)(address, bytes);
  std::lock_guard lock(placesMutex);
  if (result == kSuccess)
    endOf[*address] = *address + bytes;
  return result;
}

Result cuMemFree_v2(Address address) {
  {
    std::lock_guard lock(placesMutex);
    endOf.erase(address);
  }
  return BEHIND(cuMemFree_v2)(address);
}

static bool isOnDevice(Address address) {
  std::lock_guard lock(placesMutex);
  auto next = endOf.upper_bound(address);
  return next != endOf.begin() && address < std::prev(next)->second;
}

Result cuModuleGetFunction(Function *function, Module module,
                           const char *name) {
  const Result result = BEHIND(cuModuleGetFunction)(function, module, name);
  std::lock_guard lock(placesMutex);
  if (result == kSuccess)
    nameOf[*function] = name;
  return result;
}

static bool appends(Function function) {
  std::lock_guard lock(placesMutex);
  return nameOf[function].find("append") != std::string::npos;
}

/// Of two slots with a token and two pages at most.
constexpr size_t kPositionBytes = 2 * sizeof(int32_t),
                 kTableBytes = 4 * sizeof(int32_t);

/// A stream that the device knows nothing of, and an event of its like.
static Stream createStream() {
  Stream stream = nullptr;
  BEHIND(cuStreamCreate)(&stream, /*flags=*/1);
  return stream;
}
static Stream ownStream() {
  static Stream stream = createStream();
  return stream;
}

/// Lets a stream wait for another one.
static void join(Stream to, Stream from) {
  EventHandle event = nullptr;
  BEHIND(cuEventCreate)(&event, /*flags=*/2);
  BEHIND(cuEventRecord)(event, from);
  BEHIND(cuStreamWaitEvent)(to, event, 0);
}

/// What a generator writes before a call. Only positions have -1, in slots
/// without a token.
static Result writeWords(Address to, std::vector<int32_t> words,
                         Stream stream) {
  // Whoever copies reads them later.
  static std::mutex mutex;
  static std::vector<std::vector<int32_t>> kept;
  static std::map<Address, int> times;
  std::lock_guard lock(mutex);
  const size_t bytes = words.size() * sizeof(int32_t);
  bool hasDead = false;
  for (int32_t word : words)
    hasDead |= word == -1;
  if (isSeeded("stale position") && bytes == kPositionBytes && hasDead &&
      ++times[to] > 1)
    return kSuccess;
  // Each slot's entries count from its own page, the first of all or the
  // second.
  if (isSeeded("page freed in flight") && bytes == kTableBytes)
    words[2] = words[0] - 1;
  if (isSeeded("replay before its input"))
    stream = ownStream();
  kept.push_back(std::move(words));
  return BEHIND(cuMemcpyAsync)(
      to, reinterpret_cast<Address>(kept.back().data()), bytes, stream);
}

Result cuMemcpyAsync(Address to, Address from, size_t bytes, Stream stream) {
  const bool changesWords = isSeeded("stale position") ||
                            isSeeded("page freed in flight") ||
                            isSeeded("replay before its input");
  if (!changesWords || bytes > kTableBytes || bytes % sizeof(int32_t) != 0 ||
      isOnDevice(from))
    return BEHIND(cuMemcpyAsync)(to, from, bytes, stream);
  const auto *words = reinterpret_cast<const int32_t *>(from);
  return writeWords(to, {words, words + bytes / sizeof(int32_t)}, stream);
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
  // Appends go to a stream of their own, which the reader's stream waits for
  // behind the next kernel.
  static std::atomic<bool> isOpen = false;
  const bool isApart = isSeeded("append after its reader") && appends(function);
  if (isApart)
    join(ownStream(), stream);
  const Result result = BEHIND(cuLaunchKernel)(
      function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes,
      isApart                    ? ownStream()
      : isSeeded("wrong stream") ? latestStream.load()
                                 : stream,
      params, extra);
  if (isOpen.exchange(isApart) && !isApart)
    join(stream, ownStream());
  return result;
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
