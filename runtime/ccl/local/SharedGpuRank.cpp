//===- SharedGpuRank.cpp - A rank that shares its GPU ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedGpuRank.h"

#include <algorithm>

namespace optrt {
namespace {

class SharedGpuCommunicator final : public QueuedCommunicator {
public:
  SharedGpuCommunicator(std::shared_ptr<SharedGpuGroup> group, int index,
                        Device &device, const uint32_t &function)
      : group(std::move(group)), index(index), device(device),
        function(function) {}

  Status check(const QueuedCollective &one) const override {
    const int32_t kind = one.desc->kind;
    if (isMessage(kind))
      return unavailable("messages from rank to rank are for --backend nccl; "
                         "ranks that share a GPU start collectives alone");
    OPTRT_RETURN_IF_ERROR(checkOneStretch("a shared GPU", *one.desc));
    if (kind != OPTRT_REDUCE && kind != OPTRT_ALL_REDUCE &&
        kind != OPTRT_REDUCE_SCATTER)
      return okStatus();
    return one.kernel || group->size() == 1
               ? okStatus()
               : unavailable("the library has no kernel for the reductions of "
                             "ranks on one GPU; compile the model again, or "
                             "use another --backend");
  }
  Status enqueue(std::span<const QueuedCollective> together,
                 Queue queue) override {
    return group->start(index, {&device, queue, function, together});
  }
  /// All ranks end together, where they meet.
  void abort() override {}

private:
  const std::shared_ptr<SharedGpuGroup> group;
  const int index;
  Device &device;
  const uint32_t &function; ///< of the rank
};

} // namespace

StatusOr<std::unique_ptr<SharedGpuRank>>
SharedGpuRank::create(ControlPlane &control, int rank, Device &device,
                      SharedGpu &gpu,
                      std::span<const std::shared_ptr<SharedGpuGroup>> groups,
                      QueueWatch &watch) {
  std::unique_ptr<SharedGpuRank> made(
      new SharedGpuRank(control, rank, device, gpu, watch));
  OPTRT_RETURN_IF_ERROR(made->makeRoom(groups.size()));
  for (const std::shared_ptr<SharedGpuGroup> &group : groups) {
    const std::span<const int> ranks = group->ranks();
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    made->add(group->name,
              std::make_unique<SharedGpuCommunicator>(
                  group, int(place - ranks.begin()), device, made->function));
    made->shared.push_back(group);
  }
  made->own().device = &device;
  made->beginWatch();
  return made;
}

Status SharedGpuRank::enqueue(Queue queue,
                              std::span<const QueuedCollective> together) {
  const int32_t axis = together.front().desc->axis;
  auto wait = [&](std::optional<HostWait> here) {
    std::lock_guard lock(mutex);
    inCollective = here;
  };
  wait(HostWait{axis, groups[axis]->enqueued + 1, Clock::now()});
  Status status = QueuedRank::enqueue(queue, together);
  wait(std::nullopt);
  return status;
}

std::optional<QueuedRank::HostWait> SharedGpuRank::hostWait() {
  if (inCollective || !inMeeting)
    return inCollective;
  bool startsAny = false;
  for (size_t axis = 0; axis != groups.size(); ++axis) {
    const Group &group = *groups[axis];
    startsAny |= !group.commands.empty();
    // It waits for whom it could not start this with.
    if (!group.commands.empty() && gpu.isAnyAbsent(shared[axis]->ranks()))
      return HostWait{int32_t(axis), std::max(group.enqueued, 1u), *inMeeting};
  }
  return startsAny
             ? std::nullopt
             : std::optional(HostWait{RankActivity::kMeeting, 0, *inMeeting});
}

Status SharedGpuRank::meetAll(const std::function<Status()> &work) {
  auto wait = [&](std::optional<Clock::time_point> since) {
    std::lock_guard lock(mutex);
    inMeeting = since;
  };
  wait(Clock::now());
  Status status = gpu.meet(gpu.all, rank, work);
  wait(std::nullopt);
  return status;
}

//===----------------------------------------------------------------------===//
// One graph of all ranks
//===----------------------------------------------------------------------===//

StatusOr<bool> SharedGpuRank::agreeToRecord(bool records) {
  own().records = records;
  OPTRT_RETURN_IF_ERROR(meetAll([this] {
    gpu.doAllRecord = std::all_of(gpu.members.begin(), gpu.members.end(),
                                  [](const auto &one) { return one.records; });
    return okStatus();
  }));
  return gpu.doAllRecord;
}

// The thread of rank 0 begins and ends the capture, as the driver asks for.
Status SharedGpuRank::beginRecording() {
  return meetAll([this]() -> Status {
    OPTRT_RETURN_IF_ERROR(firstDevice().beginRecording());
    for (SharedGpu::Member &other : gpu.others())
      if (Status status = other.device->joinRecording(firstDevice());
          !status.ok()) {
        firstDevice().abandonRecording();
        return status;
      }
    gpu.takeTurns(true);
    return okStatus();
  });
}

StatusOr<uint32_t> SharedGpuRank::endRecording() {
  bool hasEnded = false;
  const Status status = meetAll([&]() -> Status {
    hasEnded = true;
    gpu.takeTurns(false);
    Status left;
    auto leave = [&](SharedGpu::Member &member, StatusOr<uint32_t> recording) {
      if (recording.ok())
        member.recording = *recording;
      else if (left.ok())
        left = recording.status();
    };
    for (SharedGpu::Member &other : gpu.others())
      leave(other, other.device->leaveRecording(firstDevice()));
    leave(own(), device.endRecording());
    return left;
  });
  if (!status.ok() && !hasEnded)
    abandonRecording();
  OPTRT_RETURN_IF_ERROR(status);
  return own().recording;
}

// Others do not go on before they are ended.
void SharedGpuRank::abandonRecording() {
  if (&device == &firstDevice())
    device.abandonRecording();
}

Status SharedGpuRank::replay(uint32_t recording) {
  own().recording = recording;
  return meetAll([this]() -> Status {
    for (SharedGpu::Member &other : gpu.others())
      OPTRT_RETURN_IF_ERROR(
          firstDevice().follow(kCompute, *other.device, kCompute));
    for (SharedGpu::Member &member : gpu.members)
      OPTRT_RETURN_IF_ERROR(member.device->replay(member.recording));
    for (SharedGpu::Member &other : gpu.others())
      OPTRT_RETURN_IF_ERROR(
          other.device->follow(kCompute, firstDevice(), kCompute));
    return okStatus();
  });
}

} // namespace optrt
