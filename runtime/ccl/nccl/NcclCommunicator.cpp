//===- NcclCommunicator.cpp - A group of ranks that NCCL joins ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclCommunicator.h"

#include <chrono>
#include <thread>
#include <utility>

namespace optrt::nccl {

Status NcclCommunicator::call(const char *name,
                              const std::function<Result()> &body) {
  {
    std::lock_guard lock(mutex);
    if (isAborted)
      return unavailable("was ended, since a rank has failed");
    if (Result result = body(); result != kInProgress)
      return library.check(result, name, comm);
  }
  return settle(name);
}

Status NcclCommunicator::settle(const char *name) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  while (true) {
    {
      std::lock_guard lock(mutex);
      if (isAborted)
        return unavailable("was ended, since a rank has failed");
      Result state = kSuccess;
      OPTRT_RETURN_IF_ERROR(
          library.check(library.api().commGetAsyncError(comm, &state),
                        "ncclCommGetAsyncError", comm));
      if (state != kInProgress)
        return library.check(state, name, comm);
    }
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (timeoutSeconds > 0 && waited.count() > timeoutSeconds)
      return unavailable(concat("NCCL's ", name, " has not come to an end for ",
                                timeoutSeconds,
                                " s (--timeout): NCCL_DEBUG=INFO tells whom "
                                "it waits for"));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Status NcclCommunicator::join(const Membership &membership) {
  Config config;
  return call("ncclCommInitRankConfig", [&] {
    return library.api().commInitRankConfig(
        &comm, membership.size, membership.id, membership.index, &config);
  });
}

static Type typeOf(int32_t type) {
  return type == OPTRT_BF16 ? kBF16 : type == OPTRT_F16 ? kF16 : kF32;
}

/// A collective without gaps between rows, and with one row where each rank has
/// a part: NCCL moves one stretch of memory.
static bool isOneStretch(const optrt_collective_desc &desc, bool isGathered,
                         int64_t ld) {
  return desc.outer <= 1 || (!isGathered && ld == desc.inner);
}

Status NcclCommunicator::enqueue(const optrt_collective_desc &desc,
                                 const void *src, void *dst, Stream stream) {
  if (!isOneStretch(desc, desc.kind == OPTRT_REDUCE_SCATTER, desc.src_ld) ||
      !isOneStretch(desc, desc.kind == OPTRT_ALL_GATHER, desc.dst_ld))
    return internal(concat("NCCL moves one stretch of memory; found ",
                           desc.outer, " rows of ", desc.inner,
                           ", which the compiler packs for --target cuda"));
  const NcclApi &api = library.api();
  const auto count = size_t(desc.outer * desc.inner);
  const Type type = typeOf(desc.type);
  const Reduction reduction = desc.reduction == OPTRT_MAX ? kMax : kSum;
  switch (desc.kind) {
  case OPTRT_BROADCAST:
    return call("ncclBroadcast", [&] {
      return api.broadcast(src, dst, count, type, desc.root, comm, stream);
    });
  case OPTRT_REDUCE:
    return call("ncclReduce", [&] {
      return api.reduce(src, dst, count, type, reduction, desc.root, comm,
                        stream);
    });
  case OPTRT_ALL_REDUCE:
    return call("ncclAllReduce", [&] {
      return api.allReduce(src, dst, count, type, reduction, comm, stream);
    });
  case OPTRT_ALL_GATHER:
    return call("ncclAllGather", [&] {
      return api.allGather(src, dst, count, type, comm, stream);
    });
  default:
    return call("ncclReduceScatter", [&] {
      return api.reduceScatter(src, dst, count, type, reduction, comm, stream);
    });
  }
}

Status NcclCommunicator::leave() {
  OPTRT_RETURN_IF_ERROR(call("ncclCommFinalize",
                             [&] { return library.api().commFinalize(comm); }));
  std::lock_guard lock(mutex);
  return library.check(library.api().commDestroy(std::exchange(comm, nullptr)),
                       "ncclCommDestroy", nullptr);
}

Status NcclCommunicator::look() {
  std::lock_guard lock(mutex);
  if (!comm)
    return okStatus();
  Result state = kSuccess;
  OPTRT_RETURN_IF_ERROR(
      library.check(library.api().commGetAsyncError(comm, &state),
                    "ncclCommGetAsyncError", comm));
  return state == kInProgress
             ? okStatus()
             : library.check(state, "ncclCommGetAsyncError", comm);
}

void NcclCommunicator::abort() {
  std::lock_guard lock(mutex);
  isAborted = true;
  if (comm)
    library.api().commAbort(std::exchange(comm, nullptr));
}

} // namespace optrt::nccl
