//===- SharedGpuRank.h - A rank that shares its GPU -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPURANK_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPURANK_H

#include "SharedGpu.h"

#include "ccl/queued/QueuedRank.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// The members of a mesh axis that share a GPU: collectives are copies and
/// kernels on a queue of the first member, which reads and writes the memory of
/// all. Reductions add in rank order, as everywhere.
class SharedGpuGroup {
public:
  SharedGpuGroup(std::string name, std::vector<int> ranks, SharedGpu &gpu,
                 const ControlPlane &control)
      : name(std::move(name)), meeting(std::move(ranks)),
        postings(meeting.ranks.size()), gpu(gpu), control(control) {}

  /// A member's part in collectives that start together.
  struct Posting {
    Device *device;
    Queue queue;
    uint32_t function;
    std::span<const QueuedCollective> together;
  };
  /// Returns when all members have posted and all is on their queues.
  Status start(int index, const Posting &posting);

  int size() const { return int(meeting.ranks.size()); }
  std::span<const int> ranks() const { return meeting.ranks; }

  const std::string name; ///< "mesh axis row"

private:
  /// For all members, on the thread of the first.
  Status startForAll();
  Status checkPostings() const;
  /// Puts the collective of this number among them on the first queue.
  Status move(size_t number);
  /// Reduces what lies `offset` elements behind each member's source into the
  /// results.
  Status reduce(size_t number, int64_t offset, std::span<void *const> results);

  Meeting meeting;
  std::vector<Posting> postings; ///< of each member
  SharedGpu &gpu;
  const ControlPlane &control;
};

/// One rank's groups. Their calls are recorded together, as one graph, which
/// the device of rank 0 has.
class SharedGpuRank final : public QueuedRank, public Recorder {
public:
  static StatusOr<std::unique_ptr<SharedGpuRank>>
  create(ControlPlane &control, int rank, Device &device, SharedGpu &gpu,
         std::span<const std::shared_ptr<SharedGpuGroup>> groups,
         QueueWatch &watch);
  ~SharedGpuRank() override { leave(); }

  Status enqueue(Queue queue,
                 std::span<const QueuedCollective> together) override;

  StatusOr<bool> agreeToRecord(bool own) override;
  Recorder &recorder(Device &) override { return *this; }
  Status beginRecording() override;
  StatusOr<uint32_t> endRecording() override;
  void abandonRecording() override;
  Status replay(uint32_t recording) override;

private:
  SharedGpuRank(ControlPlane &control, int rank, Device &device, SharedGpu &gpu,
                QueueWatch &watch)
      : QueuedRank(control, rank, device, watch, /*timeoutSeconds=*/0),
        gpu(gpu) {}

  SharedGpu::Member &own() { return gpu.members[rank]; }
  Device &firstDevice() { return *gpu.members.front().device; }
  /// Where all ranks meet.
  Status meetAll(const std::function<Status()> &work);
  std::optional<HostWait> hostWait() override;

  SharedGpu &gpu;
  std::vector<std::shared_ptr<SharedGpuGroup>> shared; ///< by axis
  /// The collective that it has come to, or since when it waits where all meet.
  std::optional<HostWait> inCollective;
  std::optional<Clock::time_point> inMeeting;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPURANK_H
