//===- NcclCommunicator.cpp - A group of ranks that NCCL joins ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclCommunicator.h"

#include "../AwakeTime.h"
#include "base/Thread.h"
#include "optimus-support/ElementType.h"

#include <chrono>
#include <utility>

namespace optrt::nccl {

Status NcclCommunicator::call(const std::function<Called()> &body) {
  Called called{};
  {
    std::lock_guard lock(mutex);
    if (isAborted)
      return unavailable("was ended, since a rank has failed");
    called = body();
    if (called.result != kInProgress)
      return library.check(called.result, called.name, comm);
  }
  return settle(called.name);
}

Status NcclCommunicator::settle(const char *name) {
  const Deadline deadline(timeoutSeconds);
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
    if (deadline.hasPassed())
      return unavailable(concat("NCCL's ", name, " has not come to an end for ",
                                timeoutSeconds,
                                " s (--timeout): NCCL_DEBUG=INFO tells whom "
                                "it waits for"));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Status NcclCommunicator::join(const Membership &membership) {
  Config config;
  size = membership.size;
  return call([&]() -> Called {
    return {"ncclCommInitRankConfig",
            library.api().commInitRankConfig(&comm, size, membership.id,
                                             membership.index, &config)};
  });
}

static Type typeOf(int32_t type) {
  // In the order of ElementType.
  constexpr Type types[] = {kF32, kF64, kF16, kBF16, kI32, kI64, kI8};
  return types[type];
}

Status NcclCommunicator::enqueue(std::span<const QueuedCollective> together,
                                 Queue queue) {
  const Stream stream = device.nativeQueue(queue);
  return call([&]() -> Called {
    // An exchange is many, of which none waits for another.
    if (together.size() == 1 && together[0].desc->kind != OPTRT_ALL_TO_ALL)
      return put(together[0], stream);
    const NcclApi &api = library.api();
    Called called{"ncclGroupStart", api.groupStart()};
    if (called.hasFailed())
      return called;
    for (const QueuedCollective &one : together)
      if (!called.hasFailed())
        called = put(one, stream);
    // What was begun is ended, whatever became of it.
    const Called ended{"ncclGroupEnd", api.groupEnd()};
    return called.hasFailed() ? called : ended;
  });
}

NcclCommunicator::Called NcclCommunicator::put(const QueuedCollective &one,
                                               Stream stream) {
  const optrt_collective_desc &desc = *one.desc;
  const NcclApi &api = library.api();
  const auto count = size_t(desc.outer * desc.inner);
  const Type type = typeOf(desc.type);
  const Reduction reduction = desc.reduction == OPTRT_MAX ? kMax : kSum;
  switch (desc.kind) {
  case OPTRT_BROADCAST:
    return {"ncclBroadcast", api.broadcast(one.src, one.dst, count, type,
                                           desc.root, comm, stream)};
  case OPTRT_REDUCE:
    return {"ncclReduce", api.reduce(one.src, one.dst, count, type, reduction,
                                     desc.root, comm, stream)};
  case OPTRT_ALL_REDUCE:
    return {"ncclAllReduce", api.allReduce(one.src, one.dst, count, type,
                                           reduction, comm, stream)};
  case OPTRT_ALL_GATHER:
    return {"ncclAllGather",
            api.allGather(one.src, one.dst, count, type, comm, stream)};
  case OPTRT_REDUCE_SCATTER:
    return {"ncclReduceScatter",
            api.reduceScatter(one.src, one.dst, count, type, reduction, comm,
                              stream)};
  case OPTRT_SEND:
    return {"ncclSend",
            api.send(one.src, count, type, desc.root, comm, stream)};
  case OPTRT_RECEIVE:
    return {"ncclRecv",
            api.receive(one.dst, count, type, desc.root, comm, stream)};
  default:
    return exchange(one, stream);
  }
}

/// All-to-all, which NCCL has since 2.28 alone: a block to and from each
/// member.
NcclCommunicator::Called NcclCommunicator::exchange(const QueuedCollective &one,
                                                    Stream stream) {
  const NcclApi &api = library.api();
  const auto count = size_t(one.desc->outer * one.desc->inner);
  const Type type = typeOf(one.desc->type);
  const size_t bytes =
      count * optimus_support::elementBytes(
                  optimus_support::ElementType(one.desc->type));
  Called called{"ncclSend", kSuccess};
  for (int peer = 0; peer != size && !called.hasFailed(); ++peer) {
    const size_t begin = size_t(peer) * bytes;
    called = {"ncclSend", api.send(static_cast<const char *>(one.src) + begin,
                                   count, type, peer, comm, stream)};
    if (!called.hasFailed())
      called = {"ncclRecv", api.receive(static_cast<char *>(one.dst) + begin,
                                        count, type, peer, comm, stream)};
  }
  return called;
}

Status NcclCommunicator::leave() {
  OPTRT_RETURN_IF_ERROR(call([&]() -> Called {
    return {"ncclCommFinalize", library.api().commFinalize(comm)};
  }));
  std::lock_guard lock(mutex);
  return library.check(library.api().commDestroy(std::exchange(comm, nullptr)),
                       "ncclCommDestroy", nullptr);
}

Status NcclCommunicator::look() {
  std::lock_guard lock(mutex);
  if (!comm || isAborted)
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
  std::lock_guard lock(ending);
  if (isAborted.exchange(true))
    return;
  auto end = [this] {
    Comm ended;
    {
      std::lock_guard lock(mutex);
      ended = std::exchange(comm, nullptr);
    }
    if (ended)
      library.api().commAbort(ended);
    isReclaimed = true;
  };
  // Without one it has not ended in time, and the watch ends the process.
  if (StatusOr<std::thread> started =
          startThread("the thread that aborts a communicator", std::move(end));
      started.ok())
    aborting = std::move(*started);
}

NcclCommunicator::~NcclCommunicator() {
  // Nobody else calls it any more.
  if (comm)
    NcclCommunicator::abort();
  if (aborting.joinable())
    aborting.join();
}

} // namespace optrt::nccl
