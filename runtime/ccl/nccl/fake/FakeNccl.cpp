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
// first leaves what a member sends, the second begins when all have done so,
// holds what they started against each other and reduces in rank order, as
// `local` does. So members may be threads or processes, and collectives may be
// captured. Where members differ, NCCL would hang or compute nonsense; here it
// is told.
//
//   OPTIMUS_FAKE_NCCL_ABSENT=G   GPU G joins no communicator
//   OPTIMUS_FAKE_NCCL_HANG=G:N   GPU G never ends the Nth collective of a
//                                communicator
//   OPTIMUS_FAKE_NCCL_FAIL=G:N   the network of GPU G breaks in it
//
//===----------------------------------------------------------------------===//

#include "Mailbox.h"
#include "NcclApi.h"

#include "FakeGpu.h"
#include "ccl/RankOrderReduction.h"
#include "optimus-runtime/Collectives.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

using namespace optrt;
using namespace optrt::nccl;
using optrt::nccl::fake::Mailbox;

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

/// What a member does in a collective.
struct Call {
  int32_t kind, type, reduction, root;
  uint64_t count; ///< elements of a rank's part

  bool operator==(const Call &) const = default;
  std::string toString() const {
    return concat(collectiveName(kind), " of ", count, " elements of type ",
                  type, ", reduction ", reduction, ", root ", root);
  }
};

} // namespace

/// What a communicator takes of a GPU's memory when it is made and, for its
/// connections, with its first collective.
static constexpr int64_t kBytesToJoin = 1 << 20, kBytesToConnect = 1 << 22;

/// What all work of a communicator refers to, also when it was captured.
struct optrt::nccl::CommOpaque {
  CommOpaque(const std::string &folder, int size, int index, int gpu)
      : mailbox(folder), size(size), index(index), gpu(gpu) {
    optimus_fake_gpu_hold(gpu, kBytesToJoin);
  }
  void connect() {
    if (!std::exchange(isConnected, true))
      optimus_fake_gpu_hold(gpu, kBytesToConnect);
  }
  void giveBack() {
    optimus_fake_gpu_hold(gpu, -kBytesToJoin -
                                   (isConnected ? kBytesToConnect : 0));
  }

  const Mailbox mailbox;
  const int size, index, gpu;
  bool isConnected = false;
  uint64_t begun = 0; ///< collectives, in turns of the fake GPU
  bool isUnderWay = false;
  std::atomic<bool> isAborted{false}, isLeaving{false};
  std::atomic<Result> error{kSuccess};
  std::string lastError;
};

namespace {

using CommRef = std::shared_ptr<CommOpaque>;

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

/// Whether a variable GPU:N names the Nth collective of a communicator there.
bool isMeant(const char *variable, int gpu, uint64_t number) {
  const char *text = std::getenv(variable);
  return text && concat(gpu, ":", number) == text;
}

/// One collective on a stream. Replayed, it is done again.
class Collective {
public:
  Collective(CommRef comm, Call call, const void *src, void *dst)
      : comm(std::move(comm)), call(call), src(src), dst(dst) {}

  std::string name() const { return std::string(collectiveName(call.kind)); }

  cuda::Result begin() {
    if (comm->isAborted)
      return cuda::kSuccess;
    if (std::exchange(comm->isUnderWay, true))
      return optimus_fake_gpu_fail(
          concat("a communicator of GPU ", comm->gpu, " begins ", name(),
                 " while another collective is under way"));
    number = ++comm->begun;
    hangs = isMeant("OPTIMUS_FAKE_NCCL_HANG", comm->gpu, number);
    fails = isMeant("OPTIMUS_FAKE_NCCL_FAIL", comm->gpu, number);
    std::string text(reinterpret_cast<const char *>(&call), sizeof(call));
    if (call.kind != OPTRT_BROADCAST || isRoot()) {
      const size_t bytes = sentBytes();
      void *from = touch(src, bytes, /*isWrite=*/false);
      if (!from)
        return cuda::kIllegalAddress;
      text.append(static_cast<const char *>(from), bytes);
    }
    comm->mailbox.put(concat(number), comm->index, text);
    return cuda::kSuccess;
  }

  bool canEnd() {
    if (comm->isAborted)
      return true;
    if (fails && comm->error == kSuccess) {
      comm->lastError = "the network of this fake GPU is broken";
      comm->error = kSystemError;
    }
    return !hangs && !fails && comm->mailbox.hasAll(concat(number), comm->size);
  }

  cuda::Result end() {
    if (comm->isAborted)
      return cuda::kSuccess;
    comm->isUnderWay = false;
    std::vector<std::string> texts;
    for (int member = 0; member != comm->size; ++member) {
      texts.push_back(comm->mailbox.get(concat(number), member));
      Call other;
      std::memcpy(&other, texts.back().data(), sizeof(other));
      if (other != call)
        return optimus_fake_gpu_fail(
            concat("ranks of an NCCL communicator differ in collective ",
                   number, ": rank ", comm->index, " has ", call.toString(),
                   "; rank ", member, " has ", other.toString()));
    }
    // Who has begun this one has ended the one before.
    if (number > 1)
      comm->mailbox.remove(concat(number - 1), comm->index);
    return withElement(call.type, [&](auto element) {
      return receive<decltype(element)>(texts);
    });
  }

private:
  bool isRoot() const { return comm->index == call.root; }
  size_t elementBytes() const { return call.type == OPTRT_F32 ? 4 : 2; }
  size_t sentBytes() const {
    const size_t parts = call.kind == OPTRT_REDUCE_SCATTER ? comm->size : 1;
    return parts * call.count * elementBytes();
  }
  void *touch(const void *at, size_t bytes, bool isWrite) const {
    return optimus_fake_gpu_touch({at, int64_t(bytes), 1, 0, isWrite},
                                  collectiveName(call.kind).data());
  }

  template <typename T>
  cuda::Result receive(const std::vector<std::string> &texts) {
    if (call.kind == OPTRT_REDUCE && !isRoot())
      return cuda::kSuccess;
    // In place, a root's own data does not move.
    if (call.kind == OPTRT_BROADCAST && isRoot() && src == dst)
      return cuda::kSuccess;
    const size_t parts = call.kind == OPTRT_ALL_GATHER ? texts.size() : 1;
    auto *to = static_cast<T *>(
        touch(dst, parts * call.count * sizeof(T), /*isWrite=*/true));
    if (!to)
      return cuda::kIllegalAddress;
    auto sent = [&](size_t member, size_t at) {
      return reinterpret_cast<const T *>(texts[member].data() + sizeof(Call)) +
             at;
    };
    if (call.kind == OPTRT_BROADCAST) {
      std::memcpy(to, sent(call.root, 0), call.count * sizeof(T));
      return cuda::kSuccess;
    }
    if (call.kind == OPTRT_ALL_GATHER) {
      for (size_t member = 0; member != texts.size(); ++member)
        std::memcpy(to + member * call.count, sent(member, 0),
                    call.count * sizeof(T));
      return cuda::kSuccess;
    }
    const size_t first =
        call.kind == OPTRT_REDUCE_SCATTER ? comm->index * call.count : 0;
    for (size_t at = 0; at < call.count; at += kReductionBlock)
      reduceBlock<T>(
          call.reduction, int(texts.size()),
          [&](int member) { return sent(size_t(member), first + at); }, to + at,
          std::min(kReductionBlock, call.count - at));
    return cuda::kSuccess;
  }

  const CommRef comm;
  const Call call;
  const void *const src;
  void *const dst;
  uint64_t number = 0; ///< among those of the communicator
  bool hangs = false, fails = false;
};

Result put(Call call, const void *src, void *dst, Comm handle, Stream stream) {
  CommRef comm = find(handle);
  if (!comm)
    return refuse("a communicator that is not there");
  if (comm->gpu != optimus_fake_gpu_current())
    return refuse(concat("a collective of GPU ", comm->gpu,
                         " where another one is the thread's"));
  comm->connect();
  auto collective =
      std::make_shared<Collective>(std::move(comm), call, src, dst);
  auto *on = static_cast<cuda::Stream>(stream);
  const std::string name = collective->name();
  if (optimus_fake_gpu_put(on, name, [=] { return collective->begin(); }) !=
          cuda::kSuccess ||
      optimus_fake_gpu_put(
          on, name, [=] { return collective->end(); },
          [=] { return collective->canEnd(); }) != cuda::kSuccess)
    return refuseForDriver();
  // As of a communicator that does not block.
  return kInProgress;
}

int32_t typeOf(Type type) {
  return type == kBF16 ? OPTRT_BF16 : type == kF16 ? OPTRT_F16 : OPTRT_F32;
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
  const char *absent = std::getenv("OPTIMUS_FAKE_NCCL_ABSENT");
  if (!absent || absent != concat(gpu))
    comm->mailbox.put("join", rank, concat(gpu));
  *handle = comm.get();
  std::lock_guard lock(mutex);
  comms[*handle] = std::move(comm);
  return kInProgress;
}

/// That of one which joins is known when all do.
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
  return kSuccess;
}

/// Graphs that were captured keep a communicator, as NCCL's do.
static Result stateOfLeaving(const CommRef &comm) {
  constexpr long kListAndCaller = 2;
  return comm.use_count() == kListAndCaller &&
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
  comm->isAborted = isAborted;
  comm->giveBack();
  // What did not end in order leaves a trace, for tests to see.
  if (isAborted)
    return kSuccess;
  // Until all are gone somebody may look who joined and who leaves.
  comm->mailbox.put("gone", comm->index, "");
  if (comm->mailbox.hasAll("gone", comm->size))
    comm->mailbox.close();
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
