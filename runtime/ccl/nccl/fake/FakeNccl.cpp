//===- FakeNccl.cpp - NCCL for GPUs that are not there --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: what the back-end opens in place of NCCL, on the fake driver of
// runtime/device/cuda/fake. A collective is two pieces of work on a stream: the
// first leaves a member's data; the second begins when all have done so,
// compares their starts and reduces in rank order, as `local` does. A group is
// two pieces, too; alone, a send waits for its receive as NCCL's may. So
// members may be threads or processes, and collectives may be captured. Where
// members differ, NCCL would hang or compute nonsense; here it is told.
//
//   OPTIMUS_FAKE_NCCL_ROOM=N     a GPU has room for N collectives at a time,
//                                and begins them in order if NCCL is told so
//   OPTIMUS_FAKE_NCCL_ABSENT=G   GPU G joins no communicator
//   OPTIMUS_FAKE_NCCL_HANG=G:N   GPU G never ends the Nth collective of a
//                                communicator
//   OPTIMUS_FAKE_NCCL_FAIL=G:N   the network of GPU G breaks in it
//   OPTIMUS_FAKE_NCCL_STUCK=G    no communicator of GPU G is given back;
//                                G:kernels: nor do its kernels end
//
//===----------------------------------------------------------------------===//

#include "Clique.h"

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/Status.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

using namespace optrt;
using namespace optrt::nccl;
using namespace optrt::nccl::fake;

// Their types are those that the back-end calls.
#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) Result symbol parameters;
OPTRT_NCCL_FUNCTIONS(OPTRT_FAKE_DECLARE)
#undef OPTRT_FAKE_DECLARE
#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default")))                            \
  const char *symbol parameters;
OPTRT_NCCL_TEXTS(OPTRT_FAKE_DECLARE)
#undef OPTRT_FAKE_DECLARE

extern "C" cuda::Result cuGetErrorString(cuda::Result result,
                                         const char **text);

namespace {

/// Communicators by their handles, until they are given back.
std::mutex mutex;
std::map<Comm, CommRef> comms;
std::string lastErrorOfAll;

CommRef find(Comm comm) {
  std::lock_guard lock(mutex);
  auto found = comms.find(comm);
  return found == comms.end() ? nullptr : found->second;
}

Result refuse(std::string what, Result result = kInvalidUsage) {
  std::lock_guard lock(mutex);
  lastErrorOfAll = std::move(what);
  return result;
}

/// With what the fake driver says.
Result refuseForDriver() {
  const char *text = nullptr;
  cuGetErrorString(0, &text);
  return refuse(text, kUnhandledCudaError);
}

/// An operation and the stream that it is for.
struct Put {
  Operation operation;
  cuda::Stream stream;
};
/// Of this thread, between ncclGroupStart() and ncclGroupEnd().
thread_local int groupDepth = 0;
thread_local std::vector<Put> group;

/// Puts those of one communicator on its stream.
Result putTogether(std::vector<Put> puts) {
  std::vector<Operation> operations;
  for (Put &one : puts) {
    if (one.stream != puts[0].stream ||
        one.operation.communicator() != puts[0].operation.communicator())
      return refuse("a group of several streams or communicators");
    operations.push_back(one.operation);
  }
  auto together =
      std::make_shared<Together>(std::move(operations), puts[0].stream);
  const std::string name = together->name();
  if (optimus_fake_gpu_put(
          puts[0].stream, name, [=] { return together->begin(); },
          [=] { return together->canBegin(); }) != cuda::kSuccess ||
      optimus_fake_gpu_put(
          puts[0].stream, name, [=] { return together->end(); },
          [=] { return together->canEnd(); }) != cuda::kSuccess)
    return refuseForDriver();
  // As of a communicator that does not block.
  return kInProgress;
}

Result put(Call call, const void *src, void *dst, Comm handle, Stream stream) {
  CommRef comm = find(handle);
  if (!comm)
    return refuse("a communicator that is not there");
  if (comm->gpu != optimus_fake_gpu_current())
    return refuse(concat("a collective of GPU ", comm->gpu,
                         " where another one is the thread's"));
  comm->connect();
  Put next{Operation(std::move(comm), call, src, dst),
           static_cast<cuda::Stream>(stream)};
  if (groupDepth == 0)
    return putTogether({std::move(next)});
  group.push_back(std::move(next));
  return kSuccess;
}

int32_t typeOf(Type type) {
  using optimus_support::ElementType;
  switch (type) {
  case kI8:
    return int32_t(ElementType::I8);
  case kI32:
    return OPTRT_I32;
  case kI64:
    return int32_t(ElementType::I64);
  case kF16:
    return OPTRT_F16;
  case kF32:
    return OPTRT_F32;
  case kF64:
    return int32_t(ElementType::F64);
  case kBF16:
    return OPTRT_BF16;
  }
  return -1;
}
int32_t reductionOf(Reduction reduction) {
  return reduction == kMax ? OPTRT_MAX : OPTRT_SUM;
}

} // namespace

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

Result ncclGetVersion(int *version) {
  *version = 22809;
  return kSuccess;
}

Result ncclGetUniqueId(UniqueId *id) {
  const std::string folder = Mailbox::make();
  if (folder.empty() || folder.size() >= sizeof(id->bytes))
    return kSystemError;
  std::memset(id->bytes, 0, sizeof(id->bytes));
  std::memcpy(id->bytes, folder.data(), folder.size());
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm *handle, int size, UniqueId id, int rank,
                              Config *config) {
  const int gpu = optimus_fake_gpu_current();
  if (gpu < 0 || config->magic != Config().magic || config->blocking != 0)
    return refuse("a communicator that cannot be made");
  auto comm = std::make_shared<CommOpaque>(id.bytes, size, rank, gpu);
  enterClique(comm);
  const char *absent = std::getenv("OPTIMUS_FAKE_NCCL_ABSENT");
  if (!absent || absent != concat(gpu)) {
    comm->mailbox.put("process", rank, concat(getpid()));
    comm->mailbox.put("join", rank, concat(gpu));
  }
  *handle = comm.get();
  std::lock_guard lock(mutex);
  comms[*handle] = std::move(comm);
  return kInProgress;
}

/// The state of a joining member is known when all have joined.
static Result stateOfJoining(CommOpaque &comm) {
  if (!comm.mailbox.hasAll("join", comm.size))
    return kInProgress;
  for (int other = 0; other != comm.size; ++other)
    if (other != comm.index &&
        comm.mailbox.get("join", other) == concat(comm.gpu)) {
      comm.lastError = concat("Duplicate GPU detected: rank ", comm.index,
                              " and rank ", other, " both on GPU ", comm.gpu);
      return comm.error = kInvalidUsage;
    }
  int own = 0;
  for (int other = 0; other != comm.size; ++other)
    own += comm.mailbox.get("process", other) == concat(getpid());
  comm.numInProcess = own;
  return kSuccess;
}

/// Graphs that were captured keep a communicator, as NCCL's do.
static Result stateOfLeaving(const CommRef &comm) {
  constexpr long kListAndCaller = 2;
  return comm.use_count() == kCliqueOwners + kListAndCaller &&
                 comm->mailbox.hasAll("leave", comm->size)
             ? kSuccess
             : kInProgress;
}

Result ncclCommGetAsyncError(Comm handle, Result *state) {
  CommRef comm = find(handle);
  if (!comm)
    return refuse("a communicator that is not there");
  *state = comm->error != kSuccess ? comm->error.load()
           : comm->isLeaving       ? stateOfLeaving(comm)
                                   : stateOfJoining(*comm);
  return kSuccess;
}

Result ncclCommFinalize(Comm handle) {
  CommRef comm = find(handle);
  if (!comm)
    return refuse("a communicator that is not there");
  comm->mailbox.put("leave", comm->index, "");
  comm->isLeaving = true;
  return kInProgress;
}

static Result giveBack(Comm handle, bool isAborted) {
  CommRef comm = find(handle);
  if (!comm)
    return refuse("a communicator that is not there");
  {
    std::lock_guard lock(mutex);
    comms.erase(handle);
  }
  getStuck(comm->gpu, ":kernels");
  // Collectives see it, and end.
  comm->isAborted = isAborted;
  // What did not end in order leaves a trace, for tests to see. Until all are
  // gone, a member may look up who has joined and left.
  if (!isAborted) {
    comm->mailbox.put("gone", comm->index, "");
    if (comm->mailbox.hasAll("gone", comm->size))
      comm->mailbox.close();
  }
  reclaim(std::move(comm));
  return kSuccess;
}

Result ncclCommDestroy(Comm comm) {
  return giveBack(comm, /*isAborted=*/false);
}
Result ncclCommAbort(Comm comm) { return giveBack(comm, /*isAborted=*/true); }

const char *ncclGetErrorString(Result result) {
  switch (result) {
  case kSuccess:
    return "no error";
  case kUnhandledCudaError:
    return "unhandled cuda error";
  case kSystemError:
    return "unhandled system error";
  case kInvalidUsage:
    return "invalid usage";
  default:
    return "another error";
  }
}

const char *ncclGetLastError(Comm handle) {
  CommRef comm = find(handle);
  static thread_local std::string copy;
  std::lock_guard lock(mutex);
  copy = comm && !comm->lastError.empty() ? comm->lastError : lastErrorOfAll;
  return copy.c_str();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Result ncclBroadcast(const void *src, void *dst, size_t count, Type type,
                     int root, Comm comm, Stream stream) {
  return put({OPTRT_BROADCAST, typeOf(type), OPTRT_SUM, root, count}, src, dst,
             comm, stream);
}
Result ncclReduce(const void *src, void *dst, size_t count, Type type,
                  Reduction reduction, int root, Comm comm, Stream stream) {
  return put({OPTRT_REDUCE, typeOf(type), reductionOf(reduction), root, count},
             src, dst, comm, stream);
}
Result ncclAllReduce(const void *src, void *dst, size_t count, Type type,
                     Reduction reduction, Comm comm, Stream stream) {
  return put({OPTRT_ALL_REDUCE, typeOf(type), reductionOf(reduction), 0, count},
             src, dst, comm, stream);
}
Result ncclAllGather(const void *src, void *dst, size_t count, Type type,
                     Comm comm, Stream stream) {
  return put({OPTRT_ALL_GATHER, typeOf(type), OPTRT_SUM, 0, count}, src, dst,
             comm, stream);
}
Result ncclReduceScatter(const void *src, void *dst, size_t count, Type type,
                         Reduction reduction, Comm comm, Stream stream) {
  return put(
      {OPTRT_REDUCE_SCATTER, typeOf(type), reductionOf(reduction), 0, count},
      src, dst, comm, stream);
}
Result ncclSend(const void *src, size_t count, Type type, int peer, Comm comm,
                Stream stream) {
  return put({OPTRT_SEND, typeOf(type), OPTRT_SUM, peer, count}, src, nullptr,
             comm, stream);
}
Result ncclRecv(void *dst, size_t count, Type type, int peer, Comm comm,
                Stream stream) {
  return put({OPTRT_RECEIVE, typeOf(type), OPTRT_SUM, peer, count}, nullptr,
             dst, comm, stream);
}

Result ncclGroupStart() {
  ++groupDepth;
  return kSuccess;
}

Result ncclGroupEnd() {
  if (groupDepth == 0)
    return refuse("the end of a group that was not begun");
  if (--groupDepth != 0 || group.empty())
    return kSuccess;
  return putTogether(std::exchange(group, {}));
}
