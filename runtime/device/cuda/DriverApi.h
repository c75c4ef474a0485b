//===- DriverApi.h - What is used of CUDA's driver --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types and functions of cuda.h used by the device, so that it is built
// where there is no toolkit. ApiTest.cpp holds them against the header where
// that is there.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVERAPI_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVERAPI_H

#include <cstddef>
#include <cstdint>

namespace optrt::cuda {

using Result = int;       ///< CUresult
using DeviceNumber = int; ///< CUdevice
using Address = uint64_t; ///< CUdeviceptr
using Context = struct ContextOpaque *;
using Stream = struct StreamOpaque *;
using EventHandle = struct EventOpaque *;
using Module = struct ModuleOpaque *;
using Function = struct FunctionOpaque *;
using Graph = struct GraphOpaque *;
using GraphExec = struct GraphExecOpaque *;

enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

/// CUdevice_attribute.
enum Attribute : int {
  kMaxPitch = 11,
  kClockKilohertz = 13,
  kNumMultiprocessors = 16,
  kMemoryClockKilohertz = 36,
  kMemoryBusBits = 37,
  kCacheBytes = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
};

enum : unsigned {
  kStreamNonBlocking = 1, ///< beside the null stream
  kEventDefault = 0,
  kEventDisableTiming = 2,
  kEventRecordExternal = 1, ///< a graph records it, at each launch
  kMemoryUnified = 4,       ///< addresses say where they are
  kCaptureThreadLocal = 1,  ///< other threads may do as they like
  kWriteAfterAll = 0,       ///< behind all that the stream wrote before
};

/// CUDA_MEMCPY2D.
struct Copy2D {
  size_t srcX, srcY;
  unsigned srcMemory;
  const void *srcHost;
  Address srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstX, dstY;
  unsigned dstMemory;
  void *dstHost;
  Address dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t widthInBytes, height;
};

/// Name here, the driver's own, parameters.
#define OPTRT_CUDA_FUNCTIONS(X)                                                \
  X(init, cuInit, (unsigned flags))                                            \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                      \
  X(getErrorName, cuGetErrorName, (Result result, const char **name))          \
  X(getErrorString, cuGetErrorString, (Result result, const char **text))      \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                            \
  X(deviceGet, cuDeviceGet, (DeviceNumber * device, int ordinal))              \
  X(deviceGetUuid, cuDeviceGetUuid_v2, (char *uuid, DeviceNumber device))      \
  X(deviceGetName, cuDeviceGetName,                                            \
    (char *name, int length, DeviceNumber device))                             \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                  \
    (int *value, int attribute, DeviceNumber device))                          \
  X(deviceGetPciAddress, cuDeviceGetPCIBusId,                                  \
    (char *address, int length, DeviceNumber device))                          \
  X(contextRetain, cuDevicePrimaryCtxRetain,                                   \
    (Context * context, DeviceNumber device))                                  \
  X(contextRelease, cuDevicePrimaryCtxRelease_v2, (DeviceNumber device))       \
  X(contextSetCurrent, cuCtxSetCurrent, (Context context))                     \
  X(memGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total))              \
  X(memAlloc, cuMemAlloc_v2, (Address * address, size_t bytes))                \
  X(memFree, cuMemFree_v2, (Address address))                                  \
  X(memHostAlloc, cuMemHostAlloc,                                              \
    (void **address, size_t bytes, unsigned flags))                            \
  X(memFreeHost, cuMemFreeHost, (void *address))                               \
  X(memsetD8Async, cuMemsetD8Async,                                            \
    (Address to, unsigned char value, size_t bytes, Stream stream))            \
  X(memsetD32Async, cuMemsetD32Async,                                          \
    (Address to, unsigned value, size_t count, Stream stream))                 \
  X(memsetD2D8Async, cuMemsetD2D8Async,                                        \
    (Address to, size_t pitch, unsigned char value, size_t width,              \
     size_t height, Stream stream))                                            \
  X(streamWriteValue32, cuStreamWriteValue32_v2,                               \
    (Stream stream, Address to, uint32_t value, unsigned flags))               \
  X(memcpyAsync, cuMemcpyAsync,                                                \
    (Address to, Address from, size_t bytes, Stream stream))                   \
  X(memcpy2DAsync, cuMemcpy2DAsync_v2, (const Copy2D *copy, Stream stream))    \
  X(streamCreate, cuStreamCreate, (Stream * stream, unsigned flags))           \
  X(streamDestroy, cuStreamDestroy_v2, (Stream stream))                        \
  X(streamSynchronize, cuStreamSynchronize, (Stream stream))                   \
  X(streamWaitEvent, cuStreamWaitEvent,                                        \
    (Stream stream, EventHandle event, unsigned flags))                        \
  X(eventCreate, cuEventCreate, (EventHandle * event, unsigned flags))         \
  X(eventDestroy, cuEventDestroy_v2, (EventHandle event))                      \
  X(eventRecord, cuEventRecord, (EventHandle event, Stream stream))            \
  X(eventRecordWithFlags, cuEventRecordWithFlags,                              \
    (EventHandle event, Stream stream, unsigned flags))                        \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *milliseconds, EventHandle begin, EventHandle end))                 \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (Module * module, const void *image, unsigned numOptions, int *options,    \
     void **values))                                                           \
  X(moduleUnload, cuModuleUnload, (Module module))                             \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (Function * function, Module module, const char *name))                    \
  X(launchKernel, cuLaunchKernel,                                              \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ,        \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     Stream stream, void **params, void **extra))                              \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (Stream stream, int mode))    \
  X(streamEndCapture, cuStreamEndCapture, (Stream stream, Graph * graph))      \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (GraphExec * exec, Graph graph, unsigned long long flags))                 \
  X(graphLaunch, cuGraphLaunch, (GraphExec exec, Stream stream))               \
  X(graphDestroy, cuGraphDestroy, (Graph graph))                               \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec exec))

/// The same of functions that older drivers lack.
#define OPTRT_CUDA_LATER_FUNCTIONS(X)                                          \
  X(funcLoad, cuFuncLoad, (Function function))

/// The driver's functions, where they were found; later ones may be null.
struct DriverApi {
#define OPTRT_CUDA_POINTER(name, symbol, parameters) Result(*name) parameters;
  OPTRT_CUDA_FUNCTIONS(OPTRT_CUDA_POINTER)
  OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_CUDA_POINTER)
#undef OPTRT_CUDA_POINTER
};

/// What the driver calls them.
struct DriverNames {
#define OPTRT_CUDA_NAME(name, symbol, parameters) const char *name = #symbol;
  OPTRT_CUDA_FUNCTIONS(OPTRT_CUDA_NAME)
  OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_CUDA_NAME)
#undef OPTRT_CUDA_NAME
};
inline constexpr DriverNames kDriverNames;

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVERAPI_H
