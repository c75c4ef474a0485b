//===- FakeDriver.cpp - The driver's functions for a fake GPU -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"

#include "optimus-support/Sizes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

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
