//===- NcclApi.h - What is used of NCCL -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types and functions of nccl.h used by the back-end, so that it is built
// where there is no NCCL. NcclApiTest.cpp holds them against the header where
// that is there.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_NCCLAPI_H
#define OPTIMUS_RUNTIME_CCL_NCCL_NCCLAPI_H

#include <climits>
#include <cstddef>

namespace optrt::nccl {

using Comm = struct CommOpaque *; ///< ncclComm_t
using Stream = void *;            ///< cudaStream_t

/// ncclResult_t.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
/// ncclDataType_t.
enum Type : int {
  kI8 = 0,
  kI32 = 2,
  kI64 = 4,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBF16 = 9
};
/// ncclRedOp_t.
enum Reduction : int { kSum = 0, kMax = 2 };

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t of NCCL 2.18, whose fields all later ones begin with: NCCL
/// reads as much as `size` says.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 0;
  int clusterSize = INT_MIN; ///< this and those below: as NCCL likes
  int minBlocks = INT_MIN, maxBlocks = INT_MIN;
  const char *network = nullptr;
  int sharesOnSplit = INT_MIN;
};

/// Name here, NCCL's own, parameters; all return a result.
#define OPTRT_NCCL_FUNCTIONS(X)                                                \
  X(getVersion, ncclGetVersion, (int *version))                                \
  X(getUniqueId, ncclGetUniqueId, (UniqueId * id))                             \
  X(commInitRankConfig, ncclCommInitRankConfig,                                \
    (Comm * comm, int size, UniqueId id, int rank, Config *config))            \
  X(commFinalize, ncclCommFinalize, (Comm comm))                               \
  X(commDestroy, ncclCommDestroy, (Comm comm))                                 \
  X(commAbort, ncclCommAbort, (Comm comm))                                     \
  X(commGetAsyncError, ncclCommGetAsyncError, (Comm comm, Result * state))     \
  X(groupStart, ncclGroupStart, ())                                            \
  X(groupEnd, ncclGroupEnd, ())                                                \
  X(send, ncclSend,                                                            \
    (const void *src, size_t count, Type type, int peer, Comm comm,            \
     Stream stream))                                                           \
  X(receive, ncclRecv,                                                         \
    (void *dst, size_t count, Type type, int peer, Comm comm, Stream stream))  \
  X(broadcast, ncclBroadcast,                                                  \
    (const void *src, void *dst, size_t count, Type type, int root, Comm comm, \
     Stream stream))                                                           \
  X(reduce, ncclReduce,                                                        \
    (const void *src, void *dst, size_t count, Type type, Reduction reduction, \
     int root, Comm comm, Stream stream))                                      \
  X(allReduce, ncclAllReduce,                                                  \
    (const void *src, void *dst, size_t count, Type type, Reduction reduction, \
     Comm comm, Stream stream))                                                \
  X(allGather, ncclAllGather,                                                  \
    (const void *src, void *dst, size_t sendCount, Type type, Comm comm,       \
     Stream stream))                                                           \
  X(reduceScatter, ncclReduceScatter,                                          \
    (const void *src, void *dst, size_t receiveCount, Type type,               \
     Reduction reduction, Comm comm, Stream stream))
/// The same of those that return a text.
#define OPTRT_NCCL_TEXTS(X)                                                    \
  X(getErrorString, ncclGetErrorString, (Result result))                       \
  X(getLastError, ncclGetLastError, (Comm comm))

/// NCCL's functions, where they were found.
struct NcclApi {
#define OPTRT_NCCL_POINTER(name, symbol, parameters) Result(*name) parameters;
  OPTRT_NCCL_FUNCTIONS(OPTRT_NCCL_POINTER)
#undef OPTRT_NCCL_POINTER
#define OPTRT_NCCL_POINTER(name, symbol, parameters)                           \
  const char *(*name)parameters;
  OPTRT_NCCL_TEXTS(OPTRT_NCCL_POINTER)
#undef OPTRT_NCCL_POINTER
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLAPI_H
