//===- QueuedRank.h - One rank's collectives on a GPU's queues --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEDRANK_H
#define OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEDRANK_H

#include "QueueWatch.h"

#include "optimus-runtime/Collectives.h"
#include "optimus-runtime/QueuedCollectives.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// "mesh axis row".
std::string axesName(const optimus_support::Mesh &mesh,
                     const Collectives::Axes &axes);

/// Internal for anything but one stretch of memory, the only form `who` moves.
Status checkOneStretch(std::string_view who, const optrt_collective_desc &desc);

/// One rank's end of a group, as a back-end has it.
class QueuedCommunicator {
public:
  virtual ~QueuedCommunicator() = default;

  /// Whether the back-end has such a collective.
  virtual Status check(const QueuedCollective &one) const = 0;
  /// Puts some that were checked on a queue, to start together.
  virtual Status enqueue(std::span<const QueuedCollective> together,
                         Queue queue) = 0;
  /// Leaves, when the others do, too, and nothing is under way.
  virtual Status leave() { return okStatus(); }

  /// What went wrong on the GPU. Any thread.
  virtual Status look() { return okStatus(); }
  /// Begins to end what is under way, and returns at once: all calls from now
  /// on fail. Any thread.
  virtual void abort() = 0;
  /// Whether what abort() began has come to an end. It may wait for the abort
  /// of all other communicators of the process, and for their recordings to be
  /// discarded, as ncclCommAbort does. Any thread.
  virtual bool hasEnded() const { return true; }
};

/// One rank's groups. The GPU itself says how far it is, in words of host
/// memory that it writes before and behind each collective: what is on queues,
/// or recorded, goes on without the host. From these the rank's activity
/// follows, and where it waits on the host, from that.
class QueuedRank : public QueuedCollectives, public Watched {
public:
  void beginCall(uint32_t function,
                 std::span<const PlannedCollective> planned) override;
  Status enqueue(Queue queue,
                 std::span<const QueuedCollective> together) override;
  Status check() override;
  Status endCall() override;
  int64_t heldBytes() const override { return 0; }

  void look() override;
  void abort() override;
  std::string findOverdue() override;

  /// How long an abort may take where `timeoutSeconds` is how long a rank may
  /// keep others waiting, and 0 is for ever: the failure is told before the
  /// wait of others for the failed rank.
  static double abortSeconds(double timeoutSeconds);

protected:
  using Clock = std::chrono::steady_clock;

  /// What a GPU has begun and done of the collectives of a call.
  struct Progress {
    uint32_t begun, done;
  };
  struct Group {
    std::string name; ///< "mesh axis row"
    std::unique_ptr<QueuedCommunicator> communicator;
    Progress *progress = nullptr;   ///< the GPU writes
    uint32_t enqueued = 0;          ///< in this call
    uint64_t before = 0;            ///< collectives of earlier calls
    std::vector<uint32_t> commands; ///< of this call
    /// The collective that was under way when it was looked at last, and since
    /// when.
    uint32_t seen = 0;
    Clock::time_point since{};
  };
  /// What a rank waits for on the host: a collective of this call, by its
  /// number on an axis, or at RankActivity::kMeeting all others.
  struct HostWait {
    int32_t axis;
    uint32_t number;
    Clock::time_point since;
  };

  QueuedRank(ControlPlane &control, int rank, Device &device, QueueWatch &watch,
             double timeoutSeconds)
      : control(control), rank(rank), device(device), watch(watch),
        secondsToEnd(abortSeconds(timeoutSeconds)),
        activity(control.activity(rank)) {}
  /// Room for the progress of so many groups; before they are added.
  Status makeRoom(size_t numGroups);
  void add(std::string name, std::unique_ptr<QueuedCommunicator> communicator);
  /// From here on another rank's failure ends it.
  void beginWatch() { watch.add(*this); }
  /// Leaves all groups, as all other ranks do, or ends what is under way, and
  /// discards the device's recordings. For the destructors of those that derive
  /// from this.
  void leave();

  /// Puts collectives on a queue; whether it is the first call of its function.
  virtual Status put(const std::function<Status()> &start, bool /*isFirst*/) {
    return start();
  }
  /// Under the mutex.
  virtual std::optional<HostWait> hostWait() { return std::nullopt; }

  ControlPlane &control;
  const int rank;
  Device &device;
  std::vector<std::unique_ptr<Group>> groups;
  std::mutex mutex; ///< of all below, and of the groups' state of a call
  uint32_t function = 0;
  Status failure;

private:
  static Progress read(const Group &group);
  /// Keeps a failure, "rank 2, h.3.mlp.up (reduce, gpt2.py:151), collective 7
  /// on mesh axis row: ...", of the collective `number` of this call, and ends
  /// all that is under way. Under the mutex.
  void fail(const Group &group, uint32_t number, const Status &status);
  /// All communicators at once: where one waits for the GPU, the kernels of
  /// another must not wait for other ranks. Under the mutex.
  void abortAll();
  bool haveAllEnded() const;
  /// Of how many groups others are told.
  size_t watchedAxes() const {
    return std::min(groups.size(), size_t(RankActivity::kMaxAxes));
  }
  void showActivity();
  /// What its groups have begun; the one that has waited longest for the
  /// others.
  std::optional<HostWait> readProgress();

  QueueWatch &watch;
  const double secondsToEnd;
  RankActivity &activity;
  DeviceMemory words;
  /// Those that were called: what they start first is not recorded.
  std::set<uint32_t> functions;
  bool isFirstCall = false; ///< of its function
  bool isInCall = false;
  /// When all was aborted, and when the rank began to wait for its end.
  std::optional<Clock::time_point> abortedSince, leavingSince;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEDRANK_H
