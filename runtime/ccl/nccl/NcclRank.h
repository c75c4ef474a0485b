//===- NcclRank.h - One rank's collectives over NCCL ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H
#define OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H

#include "NcclCommunicator.h"
#include "NcclWatch.h"

#include "optimus-runtime/QueuedCollectives.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace optrt::nccl {

/// A rank's place in a group, and what people call that.
struct NcclGroup {
  Membership membership;
  std::string name;    ///< "mesh axis row"
  std::string members; ///< "ranks 0, 2"
};

/// One rank's groups. The GPU itself says how far it is, in words of host
/// memory that it writes before and behind each collective: what is on queues,
/// or recorded, goes on without the host. From these the rank's activity
/// follows.
class NcclRank final : public QueuedCollectives, public Watched {
public:
  /// Joins all groups, in their order; the device is the rank's.
  static StatusOr<std::unique_ptr<NcclRank>>
  join(const NcclLibrary &library, ControlPlane &control, int rank,
       Device &device, std::vector<NcclGroup> groups, double timeoutSeconds,
       NcclWatch &watch);
  ~NcclRank() override;

  void beginCall(uint32_t function,
                 std::span<const PlannedCollective> planned) override;
  Status enqueue(Queue queue,
                 std::span<const QueuedCollective> together) override;
  Status check() override;
  Status endCall() override;
  int64_t heldBytes() const override { return bytes; }

  void look() override;
  void abort() override;

private:
  using Clock = std::chrono::steady_clock;

  /// What a GPU has begun and done of the collectives of a call.
  struct Progress {
    uint32_t begun, done;
  };
  struct Group {
    Group(const NcclLibrary &library, NcclGroup group, double timeoutSeconds)
        : group(std::move(group)), communicator(library, timeoutSeconds) {}

    const NcclGroup group;
    NcclCommunicator communicator;
    Progress *progress = nullptr;   ///< the GPU writes
    uint32_t enqueued = 0;          ///< in this call
    uint64_t before = 0;            ///< collectives of earlier calls
    std::vector<uint32_t> commands; ///< of this call
    /// The collective that was under way when it was looked at last, and since
    /// when.
    uint32_t seen = 0;
    Clock::time_point since{};
  };

  NcclRank(ControlPlane &control, int rank, Device &device, NcclWatch &watch)
      : control(control), rank(rank), device(device), watch(watch),
        activity(control.activity(rank)) {}
  Status joinAll(const NcclLibrary &library, std::vector<NcclGroup> all,
                 double timeoutSeconds);
  /// Does what NCCL may take memory for: joining and, for its connections, what
  /// a group does first.
  Status counting(const std::function<Status()> &body);
  static Progress read(const Group &group);
  /// Keeps a failure, "rank 2, h.3.mlp.up (reduce, gpt2.py:151), collective 7
  /// on mesh axis row: ...", of the collective `number` of this call, and ends
  /// all that is under way. Under the mutex.
  void fail(const Group &group, uint32_t number, const Status &status);
  /// Of how many groups others are told.
  size_t watchedAxes() const {
    return std::min(groups.size(), size_t(RankActivity::kMaxAxes));
  }
  void showActivity();

  ControlPlane &control;
  const int rank;
  Device &device;
  NcclWatch &watch;
  RankActivity &activity;
  DeviceMemory words;
  int64_t bytes = 0; ///< of the GPU's memory, that NCCL took
  /// Those that were called: what they start first is not recorded.
  std::set<uint32_t> functions;
  bool isFirstCall = false; ///< of its function
  std::vector<std::unique_ptr<Group>> groups;
  std::mutex mutex; ///< of what follows and of what groups have of a call
  bool isInCall = false;
  uint32_t function = 0;
  Status failure;
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H
