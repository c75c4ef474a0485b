//===- Operations.h - What a fake NCCL does on a stream ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_FAKE_OPERATIONS_H
#define OPTIMUS_RUNTIME_CCL_NCCL_FAKE_OPERATIONS_H

#include "FakeGpu.h"
#include "Mailbox.h"
#include "NcclApi.h"
#include "Room.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace optrt::nccl {

/// What all work of a communicator refers to, also when it was captured.
struct CommOpaque {
  /// It takes a GPU's memory when it is made and, for its connections, with its
  /// first collective.
  static constexpr int64_t kBytesToJoin = 1 << 20, kBytesToConnect = 1 << 22;

  CommOpaque(const std::string &folder, int size, int index, int gpu)
      : mailbox(folder), size(size), index(index), gpu(gpu) {
    optimus_fake_gpu_hold(gpu, kBytesToJoin);
  }
  void connect() {
    if (!std::exchange(isConnected, true))
      optimus_fake_gpu_hold(gpu, kBytesToConnect);
  }
  void giveBack() {
    optimus_fake_gpu_hold(gpu,
                          -kBytesToJoin - (isConnected ? kBytesToConnect : 0));
  }

  const fake::Mailbox mailbox;
  const int size, index, gpu;
  bool isConnected = false;
  /// How many members are of this process; 0 before all have joined.
  std::atomic<int> numInProcess{0};
  /// In turns of the fake GPU: operations, collectives among them, and sends
  /// and receives by kind and peer.
  uint64_t begun = 0, collectives = 0;
  std::map<std::pair<int32_t, int32_t>, uint64_t> messages;
  bool isUnderWay = false;
  std::vector<std::string> letters; ///< of what has ended here
  std::atomic<bool> isAborted{false}, isLeaving{false};
  std::atomic<Result> error{kSuccess};
  std::string lastError;
};

namespace fake {

using CommRef = std::shared_ptr<CommOpaque>;

/// What a member does in a collective or, with the peer as its root, in a send
/// or a receive.
struct Call {
  int32_t kind, type, reduction, root;
  uint64_t count; ///< elements of a rank's part

  bool operator==(const Call &) const = default;
  std::string toString() const;
};

/// One call of NCCL's. Replayed, it is done again.
class Operation {
public:
  Operation(CommRef comm, Call call, const void *src, void *dst)
      : comm(std::move(comm)), call(call), src(src), dst(dst) {}

  const CommRef &communicator() const { return comm; }
  std::string name() const;
  cuda::Result begin();
  bool canEnd();
  cuda::Result end();

  bool isMessage() const;
  /// What others find it under.
  std::string letter() const;

private:
  bool isRoot() const { return comm->index == call.root; }
  /// Whether it leaves something for others.
  bool sends() const;
  size_t elementBytes() const;
  void *touch(const void *at, size_t bytes, bool isWrite) const;
  cuda::Result receiveMessage();
  template <typename T>
  cuda::Result receiveSum(const std::vector<std::string> &texts);
  cuda::Result receiveMoved(const std::vector<std::string> &texts);

  CommRef comm;
  Call call;
  const void *src;
  void *dst;
  uint64_t number = 0; ///< among those that others count alike
  bool hangs = false, fails = false;
};

/// What starts together on a communicator: each begins before any ends, as
/// where a send waits for its receive.
class Together {
public:
  Together(std::vector<Operation> operations, cuda::Stream stream)
      : operations(std::move(operations)), place(comm().gpu, stream) {}

  std::string name() const;
  bool canBegin() const { return comm().isAborted || place.isFree(); }
  cuda::Result begin();
  bool canEnd();
  cuda::Result end();

private:
  CommOpaque &comm() const { return *operations.front().communicator(); }

  std::vector<Operation> operations;
  Place place;
};

} // namespace fake
} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_FAKE_OPERATIONS_H
