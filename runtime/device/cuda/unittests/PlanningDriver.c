/*===- PlanningDriver.c - A driver for cuDNN to make plans with --*- C -*-===*\
|*                                                                            *|
|* Part of the Optimus project, under the Apache License v2.0 with LLVM       *|
|* Exceptions. See LICENSE for licence information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
/*
 * For CudnnPlansTest, on machines without a GPU: the real cuDNN opens
 * libcuda.so.1 before it compiles a plan's kernels, and loads them. This one
 * takes what is loaded and says of all else that there is no device.
 */

#include <stddef.h>

enum { kSuccess = 0, kNoDevice = 100 };

#define EXPORT __attribute__((visibility("default")))

#define REFUSED(X)                                                             \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetDevice)                                                            \
  X(cuCtxGetLimit)                                                             \
  X(cuCtxPopCurrent)                                                           \
  X(cuCtxPushCurrent)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDeviceGetCount)                                                          \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuDevicePrimaryCtxReset)                                                   \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDriverGetVersion)                                                        \
  X(cuGetErrorName)                                                            \
  X(cuGetErrorString)                                                          \
  X(cuInit)                                                                    \
  X(cuLaunchCooperativeKernel)                                                 \
  X(cuLaunchKernel)                                                            \
  X(cuLaunchKernelEx)                                                          \
  X(cuLibraryLoadFromFile)                                                     \
  X(cuLinkAddData)                                                             \
  X(cuLinkAddData_v2)                                                          \
  X(cuLinkAddFile_v2)                                                          \
  X(cuLinkComplete)                                                            \
  X(cuLinkCreate)                                                              \
  X(cuLinkCreate_v2)                                                           \
  X(cuLinkDestroy)                                                             \
  X(cuMemcpyDtoH_v2)                                                           \
  X(cuModuleGetGlobal_v2)                                                      \
  X(cuModuleLoadFatBinary)                                                     \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                               \
  X(cuOccupancyMaxPotentialClusterSize)                                        \
  X(cuStreamGetCtx)                                                            \
  X(cuStreamGetGreenCtx)                                                       \
  X(cuStreamSynchronize)                                                       \
  X(cuTensorMapEncodeIm2col)                                                   \
  X(cuTensorMapEncodeTiled)

#define REFUSE(name)                                                           \
  EXPORT int name(void) { return kNoDevice; }
REFUSED(REFUSE)

/* What is made is never used. */
#define MAKE(name)                                                             \
  EXPORT int name(void **made) {                                               \
    static char something;                                                     \
    *made = &something;                                                        \
    return kSuccess;                                                           \
  }
MAKE(cuLibraryLoadData)
MAKE(cuLibraryGetKernel)
MAKE(cuKernelGetFunction)
MAKE(cuModuleLoadData)
MAKE(cuModuleLoadDataEx)
MAKE(cuModuleGetFunction)

#define TAKE(name)                                                             \
  EXPORT int name(void) { return kSuccess; }
TAKE(cuLibraryUnload)
TAKE(cuModuleUnload)
TAKE(cuFuncGetAttribute)
TAKE(cuFuncSetAttribute)
TAKE(cuKernelGetAttribute)
TAKE(cuKernelSetAttribute)
