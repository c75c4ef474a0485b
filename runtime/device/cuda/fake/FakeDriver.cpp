//===- FakeDriver.cpp - The driver's functions for a fake GPU -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "optimus-support/Sizes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

using namespace optrt;
using namespace optrt::cuda;
using namespace optrt::cuda::fake;

// Their types are those that the device calls.
#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) Result symbol parameters;
OPTRT_CUDA_FUNCTIONS(OPTRT_FAKE_DECLARE)
OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_FAKE_DECLARE)

static thread_local Context currentContext = nullptr;
/// Of each GPU that is visible, one.
static char contexts[1024];

int optimus_fake_gpu_current() {
  const std::vector<int> &visible = Gpu::get().visible;
  return currentContext
             ? visible[size_t(reinterpret_cast<char *>(currentContext) -
                              contexts)]
             : -1;
}

#define FAKE_ENTER                                                             \
  Gpu &gpu = Gpu::get();                                                       \
  std::lock_guard lock(gpu.mutex);                                             \
  if (!currentContext)                                                         \
    return gpu.refuse(kInvalidContext, "no context is the thread's");          \
  if (gpu.failed != kSuccess)                                                  \
  return gpu.failed

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

Result cuInit(unsigned) {
  return std::getenv("OPTIMUS_FAKE_GPU_ABSENT") ? kNoDevice : kSuccess;
}
Result cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}
Result cuGetErrorName(Result result, const char **name) {
  switch (result) {
#define FAKE_NAME(value, text)                                                 \
  case value:                                                                  \
    *name = text;                                                              \
    return kSuccess;
    FAKE_NAME(kInvalidValue, "CUDA_ERROR_INVALID_VALUE")
    FAKE_NAME(kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY")
    FAKE_NAME(kNoDevice, "CUDA_ERROR_NO_DEVICE")
    FAKE_NAME(kInvalidImage, "CUDA_ERROR_INVALID_IMAGE")
    FAKE_NAME(kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT")
    FAKE_NAME(kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE")
    FAKE_NAME(kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE")
    FAKE_NAME(kNotFound, "CUDA_ERROR_NOT_FOUND")
    FAKE_NAME(kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS")
    FAKE_NAME(kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED")
    FAKE_NAME(kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
    FAKE_NAME(kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    FAKE_NAME(kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED")
    FAKE_NAME(kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED")
    FAKE_NAME(kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT")
    FAKE_NAME(kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD")
#undef FAKE_NAME
  default:
    return kInvalidValue;
  }
}
Result cuGetErrorString(Result, const char **text) {
  // What the fake GPU knows beyond a real one's names.
  static thread_local std::string copy;
  std::lock_guard lock(Gpu::get().mutex);
  copy = Gpu::get().problem.empty() ? "no GPU" : Gpu::get().problem;
  *text = copy.c_str();
  return kSuccess;
}
Result cuDeviceGetCount(int *count) {
  *count = int(Gpu::get().visible.size());
  return kSuccess;
}
Result cuDeviceGet(DeviceNumber *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && size_t(ordinal) < Gpu::get().visible.size()
             ? kSuccess
             : kInvalidValue;
}
Result cuDeviceGetUuid_v2(char *uuid, DeviceNumber device) {
  std::memset(uuid, 0, 16);
  std::memcpy(uuid, &Gpu::get().visible[size_t(device)], sizeof(int));
  return kSuccess;
}
Result cuDeviceGetName(char *name, int length, DeviceNumber) {
  std::strncpy(name, "Optimus's fake GPU", size_t(length));
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char *address, int length, DeviceNumber device) {
  std::snprintf(address, size_t(length), "0000:%02x:00.0", device + 1);
  return kSuccess;
}
Result cuDeviceGetAttribute(int *value, int attribute, DeviceNumber) {
  switch (attribute) {
  case kMaxPitch:
    *value = INT32_MAX;
    return kSuccess;
  case kNumMultiprocessors:
    *value = 3;
    return kSuccess;
  case kThreadsPerMultiprocessor:
    *value = 512;
    return kSuccess;
  case kCapabilityMajor:
    *value = 0; // which no GPU has
    return kSuccess;
  case kCapabilityMinor:
    *value = 0;
    return kSuccess;
  default:
    return kInvalidValue;
  }
}
/// $OPTIMUS_FAKE_GPU_CONTEXT: "missing:1" where there is no memory for one on
/// GPU 1, and "late:1" where it takes for ever.
Result cuDevicePrimaryCtxRetain(Context *context, DeviceNumber device) {
  const char *how = std::getenv("OPTIMUS_FAKE_GPU_CONTEXT");
  const int gpu = Gpu::get().visible[size_t(device)];
  if (how && how == concat("missing:", gpu))
    return kOutOfMemory;
  while (how && how == concat("late:", gpu))
    std::this_thread::sleep_for(std::chrono::hours(1));
  *context = reinterpret_cast<Context>(&contexts[device]);
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) { return kSuccess; }
Result cuCtxSetCurrent(Context context) {
  currentContext = context;
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static constexpr int64_t kAlignment = 256;

static Rows rowsAt(Address address, size_t bytes, size_t count, size_t pitch,
                   bool isWrite) {
  return {reinterpret_cast<const void *>(address), int64_t(bytes),
          int64_t(count), int64_t(pitch), isWrite};
}

/// What a stream still uses is not given back.
static Result checkRelease(Gpu &gpu, const void *visible, size_t bytes) {
  std::string problem = gpu.races.release(visible, bytes);
  return problem.empty() ? kSuccess
                         : gpu.fail(kLaunchFailed, std::move(problem));
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  FAKE_ENTER;
  *total = size_t(gpu.totalBytes);
  *free = size_t(gpu.totalBytes - gpu.usedBytes[optimus_fake_gpu_current()]);
  return kSuccess;
}

Result cuMemAlloc_v2(Address *address, size_t bytes) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is allocated"))
    return result;
  if (bytes == 0)
    return gpu.refuse(kInvalidValue, "0 bytes are allocated");
  const int place = optimus_fake_gpu_current();
  if (bytes > size_t(gpu.totalBytes - gpu.usedBytes[place]))
    return gpu.refuse(kOutOfMemory, "out of memory");
  const int64_t rounded =
      (int64_t(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void *start = gpu.memory.allocate(rounded);
  if (!start)
    return gpu.refuse(kOutOfMemory, "out of the host's memory");
  // What nobody wrote is not 0.
  std::memset(*gpu.memory.find(start, rounded), 0xFF, size_t(rounded));
  *address = reinterpret_cast<Address>(start);
  gpu.allocated[*address] = {int64_t(bytes), place};
  gpu.usedBytes[place] += int64_t(bytes);
  ++gpu.counts.allocations;
  ++gpu.counts.everAllocated;
  gpu.counts.bytes += int64_t(bytes);
  gpu.counts.mostBytes = std::max(gpu.counts.mostBytes, gpu.counts.bytes);
  return kSuccess;
}
Result cuMemFree_v2(Address address) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is given back"))
    return result;
  auto known = gpu.allocated.find(address);
  if (known == gpu.allocated.end())
    return gpu.refuse(kInvalidValue, "memory that was not allocated");
  auto *start = reinterpret_cast<void *>(address);
  const auto [bytes, place] = known->second;
  if (Result result =
          checkRelease(gpu, *gpu.memory.find(start, bytes), size_t(bytes)))
    return result;
  gpu.memory.release(start);
  --gpu.counts.allocations;
  gpu.counts.bytes -= bytes;
  gpu.usedBytes[place] -= bytes;
  gpu.allocated.erase(known);
  return kSuccess;
}
Result cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is pinned"))
    return result;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*address)
    return gpu.refuse(kOutOfMemory, "out of the host's memory");
  gpu.pinned[*address] = int64_t(bytes);
  ++gpu.counts.everPinned;
  gpu.counts.pinnedBytes += int64_t(bytes);
  gpu.counts.mostPinnedBytes =
      std::max(gpu.counts.mostPinnedBytes, gpu.counts.pinnedBytes);
  return kSuccess;
}
Result cuMemFreeHost(void *address) {
  FAKE_ENTER;
  auto known = gpu.pinned.find(address);
  if (known == gpu.pinned.end())
    return gpu.refuse(kInvalidValue, "memory that was not pinned");
  if (Result result = checkRelease(gpu, address, size_t(known->second)))
    return result;
  gpu.counts.pinnedBytes -= known->second;
  gpu.pinned.erase(known);
  std::free(address);
  return kSuccess;
}

Result cuMemsetD2D8Async(Address to, size_t pitch, unsigned char value,
                         size_t width, size_t height, Stream stream) {
  FAKE_ENTER;
  if (width > pitch)
    return gpu.refuse(kInvalidValue, "rows that are wider than their pitch");
  // No page of NVIDIA's says that a graph's memset writes the host's memory.
  if (stream->capture && gpu.isPinned(reinterpret_cast<const void *>(to)))
    return gpu.refuse(kInvalidValue,
                      "a memset of the host's memory in a graph");
  const Rows rows = rowsAt(to, width, height, pitch, /*isWrite=*/true);
  auto work = [=, &gpu]() -> Result {
    auto *at = static_cast<char *>(gpu.touch(rows, "a memset"));
    for (size_t row = 0; at && row != height; ++row)
      std::memset(at + row * pitch, value, width);
    return gpu.failed;
  };
  if (!gpu.memory.isHidden(rows.address) && !gpu.isPinned(rows.address))
    return gpu.refuse(kInvalidValue, "a memset of the host's pageable memory");
  return gpu.put(stream, "a memset", work);
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes,
                       Stream stream) {
  return cuMemsetD2D8Async(to, bytes, value, bytes, 1, stream);
}

Result cuMemsetD32Async(Address to, unsigned value, size_t count,
                        Stream stream) {
  FAKE_ENTER;
  const Rows row = rowsAt(to, count * sizeof(value), 1, 0, /*isWrite=*/true);
  if (!gpu.memory.isHidden(row.address))
    return gpu.refuse(kInvalidValue, "a memset of the host's memory");
  auto work = [=, &gpu]() -> Result {
    auto *at = static_cast<uint32_t *>(gpu.touch(row, "a memset"));
    for (size_t i = 0; at && i != count; ++i)
      at[i] = value;
    return gpu.failed;
  };
  return gpu.put(stream, "a memset", work);
}

Result optrt::cuda::fake::writeHostWord(Gpu &gpu, Address to, uint32_t value) {
  const auto *address = reinterpret_cast<const void *>(to);
  if (!gpu.isPinned(address))
    return gpu.fail(kIllegalAddress,
                    "a word is written of memory of the host that is not "
                    "pinned, or was given back before its turn came");
  auto *at = static_cast<uint32_t *>(
      gpu.touch(rowsAt(to, sizeof(value), 1, 0, /*isWrite=*/true), "a word"));
  // The host may look at it meanwhile.
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
  return kSuccess;
}

/// $OPTIMUS_FAKE_GPU_WORDS: "kernel" where the driver captures no such call,
/// "none" where a kernel does not write to the host's memory, either.
Result cuStreamWriteValue32_v2(Stream stream, Address to, uint32_t value,
                               unsigned) {
  FAKE_ENTER;
  if (std::getenv("OPTIMUS_FAKE_GPU_WORDS"))
    if (Result result = gpu.checkCapture("a word is written"))
      return result;
  return gpu.put(stream, "a written word",
                 [=, &gpu] { return writeHostWord(gpu, to, value); });
}

static Result putCopy(Gpu &gpu, const Copy2D &c, Stream stream) {
  const Rows read = rowsAt(c.srcDevice, c.widthInBytes, c.height, c.srcPitch,
                           /*isWrite=*/false),
             written = rowsAt(c.dstDevice, c.widthInBytes, c.height, c.dstPitch,
                              /*isWrite=*/true);
  auto work = [=, &gpu]() -> Result {
    const auto *from = static_cast<const char *>(gpu.touch(read, "a copy"));
    auto *to = static_cast<char *>(gpu.touch(written, "a copy"));
    for (size_t row = 0; from && to && row != c.height; ++row)
      std::memcpy(to + row * c.dstPitch, from + row * c.srcPitch,
                  c.widthInBytes);
    return gpu.failed;
  };
  return gpu.put(stream, "a copy", work);
}
Result cuMemcpy2DAsync_v2(const Copy2D *copy, Stream stream) {
  FAKE_ENTER;
  const Copy2D c = *copy;
  if (c.srcMemory != kMemoryUnified || c.dstMemory != kMemoryUnified ||
      c.widthInBytes > c.srcPitch || c.widthInBytes > c.dstPitch ||
      c.srcPitch > INT32_MAX || c.dstPitch > INT32_MAX)
    return gpu.refuse(kInvalidValue, "a copy of rows that cannot be right");
  return putCopy(gpu, c, stream);
}
Result cuMemcpyAsync(Address to, Address from, size_t bytes, Stream stream) {
  FAKE_ENTER;
  Copy2D row = {};
  row.srcDevice = from;
  row.dstDevice = to;
  row.widthInBytes = bytes;
  row.height = 1;
  return putCopy(gpu, row, stream);
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

Result cuStreamCreate(Stream *stream, unsigned flags) {
  FAKE_ENTER;
  if (flags != kStreamNonBlocking)
    return gpu.refuse(kInvalidValue, "a stream that waits for the null stream");
  *stream = new StreamOpaque();
  (*stream)->number = gpu.numStreams++;
  (*stream)->gpu = optimus_fake_gpu_current();
  (*stream)->lane = gpu.races.addLane();
  gpu.streams.insert(*stream);
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream stream) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (!gpu.streams.erase(stream))
    return gpu.refuse(kInvalidHandle, "a stream that was not created");
  delete stream;
  return gpu.failed;
}
Result cuStreamSynchronize(Stream stream) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("a stream is waited for"))
    return result;
  return gpu.drain(stream);
}
Result cuStreamWaitEvent(Stream stream, EventHandle event, unsigned) {
  FAKE_ENTER;
  if (!gpu.events.count(event) || !gpu.streams.count(stream))
    return gpu.refuse(kInvalidHandle, "a wait of or for what is not there");
  if (event->capture || stream->capture) {
    if ((stream->capture && stream->capture != event->capture) ||
        event->capture->hasEnded)
      return gpu.refuse(kCaptureUnsupported,
                        "a captured stream waits for an event outside");
    stream->capture = event->capture;
    stream->frontier.insert(event->frontier.begin(), event->frontier.end());
    return kSuccess;
  }
  if (!event->marker)
    return kSuccess;
  stream->clock.join(event->clock);
  return gpu.put(stream, {Task::Await, {}, event->marker});
}
Result cuEventCreate(EventHandle *event, unsigned flags) {
  FAKE_ENTER;
  *event = new EventOpaque();
  (*event)->hasTime = !(flags & kEventDisableTiming);
  gpu.events.insert(*event);
  return kSuccess;
}
Result cuEventDestroy_v2(EventHandle event) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (!gpu.events.erase(event))
    return gpu.refuse(kInvalidHandle, "an event that was not created");
  delete event;
  return gpu.failed;
}
Result cuEventRecord(EventHandle event, Stream stream) {
  FAKE_ENTER;
  if (!gpu.events.count(event) || !gpu.streams.count(stream))
    return gpu.refuse(kInvalidHandle, "a recording of or on what is not there");
  event->capture = stream->capture;
  event->frontier = stream->frontier;
  event->marker = nullptr;
  if (stream->capture)
    return kSuccess;
  event->marker = std::make_shared<Marker>();
  event->clock = stream->clock;
  return gpu.put(stream, {Task::Reach, {}, event->marker});
}
/// A node of a graph, whose launches record the event.
Result cuEventRecordWithFlags(EventHandle event, Stream stream,
                              unsigned flags) {
  if (flags != kEventRecordExternal)
    return cuEventRecord(event, stream);
  FAKE_ENTER;
  if (!gpu.events.count(event) || !gpu.streams.count(stream))
    return gpu.refuse(kInvalidHandle, "a recording of or on what is not there");
  if (!stream->capture)
    return gpu.refuse(kInvalidValue,
                      "a graph's event on a stream that is not captured");
  event->capture = nullptr;
  event->marker = nullptr;
  return gpu.put(stream, "an event", [event]() -> Result {
    Gpu &gpu = Gpu::get();
    if (!gpu.events.count(event))
      return gpu.fail(kInvalidHandle, "a graph records an event that is gone");
    event->marker = std::make_shared<Marker>(Marker{true, gpu.now()});
    return kSuccess;
  });
}
Result cuEventElapsedTime(float *milliseconds, EventHandle begin,
                          EventHandle end) {
  FAKE_ENTER;
  for (EventHandle event : {begin, end}) {
    if (gpu.events.count(event) && event->capture)
      return gpu.refuse(kCapturedEvent,
                        "the time of an event that was recorded in a capture");
    if (!gpu.events.count(event) || !event->hasTime || !event->marker ||
        !event->marker->isReached)
      return gpu.refuse(kInvalidHandle, "the time of an event without one");
  }
  *milliseconds = float(double(end->marker->time - begin->marker->time) / 1e6);
  return kSuccess;
}
