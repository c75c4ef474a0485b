//===- NcclRank.cpp - One rank's collectives over NCCL --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclRank.h"

#include <utility>

namespace optrt::nccl {

StatusOr<std::unique_ptr<NcclRank>>
NcclRank::join(const NcclLibrary &library, ControlPlane &control, int rank,
               Device &device, std::vector<NcclGroup> groups,
               double timeoutSeconds, NcclWatch &watch) {
  std::unique_ptr<NcclRank> joined(new NcclRank(control, rank, device, watch));
  OPTRT_ASSIGN_OR_RETURN(
      joined->words,
      device.allocateOnHost(int64_t(groups.size() * sizeof(Progress)),
                            "the progress of collectives"));
  OPTRT_RETURN_IF_ERROR(joined->counting([&] {
    return joined->joinAll(library, std::move(groups), timeoutSeconds);
  }));
  return joined;
}

Status NcclRank::counting(const std::function<Status()> &body) {
  OPTRT_ASSIGN_OR_RETURN(const int64_t before, device.freeBytes());
  OPTRT_RETURN_IF_ERROR(body());
  OPTRT_ASSIGN_OR_RETURN(const int64_t after, device.freeBytes());
  // Whatever else uses the GPU may have given some back meanwhile.
  bytes += std::max<int64_t>(0, before - after);
  return okStatus();
}

Status NcclRank::joinAll(const NcclLibrary &library, std::vector<NcclGroup> all,
                         double timeoutSeconds) {
  for (NcclGroup &group : all) {
    auto *progress = reinterpret_cast<Progress *>(words.data());
    groups.push_back(
        std::make_unique<Group>(library, std::move(group), timeoutSeconds));
    groups.back()->progress = progress + (groups.size() - 1);
  }
  // From here on another rank's failure ends it.
  watch.add(*this);
  // NCCL takes the device that is the thread's.
  (void)device.nativeQueue(kCompute);
  for (const std::unique_ptr<Group> &group : groups)
    if (Status status = group->communicator.join(group->group.membership);
        !status.ok()) {
      std::lock_guard lock(mutex);
      failure = status.withContext(concat("rank ", rank, " does not join ",
                                          group->group.members, " on ",
                                          group->group.name));
      return failure;
    }
  return okStatus();
}

NcclRank::~NcclRank() {
  auto isFine = [this] {
    std::lock_guard lock(mutex);
    return failure.ok();
  };
  // All ranks leave each group together; what is left then is ended.
  bool areLeft = true;
  for (const std::unique_ptr<Group> &group : groups)
    if (!(areLeft = isFine() && group->communicator.leave().ok()))
      break;
  watch.remove(*this);
  if (areLeft)
    return;
  for (const std::unique_ptr<Group> &group : groups)
    group->communicator.abort();
  // What is on queues writes the words, which go with this.
  (void)device.synchronize();
}

void NcclRank::beginCall(uint32_t newFunction,
                         std::span<const PlannedCollective> planned) {
  std::lock_guard lock(mutex);
  for (const std::unique_ptr<Group> &group : groups) {
    group->before += group->commands.size();
    group->commands.clear();
    group->enqueued = group->seen = 0;
    *group->progress = {0, 0};
  }
  function = newFunction;
  isFirstCall = functions.insert(function).second;
  for (const PlannedCollective &one : planned)
    groups[one.desc->axis]->commands.push_back(one.command);
  isInCall = true;
}

Status NcclRank::enqueue(Queue queue,
                         std::span<const QueuedCollective> together) {
  Group &group = *groups[together.front().desc->axis];
  const uint32_t first = group.enqueued + 1;
  group.enqueued += uint32_t(together.size());
  uint32_t number = first;
  for (const QueuedCollective &one : together) {
    if (Status status = NcclCommunicator::check(*one.desc); !status.ok()) {
      std::lock_guard lock(mutex);
      fail(group, number, status);
      return failure;
    }
    ++number;
  }
  auto start = [&] {
    return group.communicator.enqueue(together, device.nativeQueue(queue));
  };
  auto put = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(device.post(queue, &group.progress->begun, first));
    OPTRT_RETURN_IF_ERROR(isFirstCall ? counting(start) : start());
    return device.post(queue, &group.progress->done, group.enqueued);
  };
  Status status = put();
  if (status.ok())
    return status;
  std::lock_guard lock(mutex);
  // What NCCL finds wrong, it finds in what the GPU does by now.
  const Progress at = read(group);
  const bool isUnderWay =
      status.code() != StatusCode::Internal && at.done < at.begun;
  fail(group, isUnderWay ? at.begun : first, status);
  return failure;
}

void NcclRank::fail(const Group &group, uint32_t number, const Status &status) {
  if (!failure.ok())
    return;
  failure = status.withContext(
      concat("rank ", rank, ", ",
             control.nameOf(rank, {group.commands[number - 1], function}),
             ", collective ", group.before + number, " on ", group.group.name));
  // Whatever waits for this group does not come to an end by itself.
  for (const std::unique_ptr<Group> &other : groups)
    other->communicator.abort();
}

Status NcclRank::check() {
  look();
  std::lock_guard lock(mutex);
  return failure;
}

Status NcclRank::endCall() {
  std::lock_guard lock(mutex);
  isInCall = false;
  activity.since.store(0, std::memory_order_relaxed);
  if (failure.ok())
    for (size_t axis = 0; axis != watchedAxes(); ++axis)
      activity.started[axis].store(groups[axis]->before +
                                       groups[axis]->commands.size(),
                                   std::memory_order_relaxed);
  return failure;
}

NcclRank::Progress NcclRank::read(const Group &group) {
  // What is done was begun.
  const uint32_t done =
      __atomic_load_n(&group.progress->done, __ATOMIC_ACQUIRE);
  return {__atomic_load_n(&group.progress->begun, __ATOMIC_ACQUIRE), done};
}

void NcclRank::showActivity() {
  const Clock::time_point now = Clock::now();
  const Group *longest = nullptr;
  size_t itsAxis = 0;
  for (size_t axis = 0; axis != watchedAxes(); ++axis) {
    Group &group = *groups[axis];
    const Progress progress = read(group);
    activity.started[axis].store(group.before + progress.begun,
                                 std::memory_order_relaxed);
    if (progress.begun == 0)
      continue;
    const CommandId last{group.commands[progress.begun - 1], function};
    if (progress.begun != group.seen) {
      group.since = now;
      activity.command.store(last, std::memory_order_relaxed);
    }
    group.seen = progress.begun;
    if (progress.done < progress.begun &&
        (!longest || group.since < longest->since)) {
      longest = &group;
      itsAxis = axis;
    }
  }
  if (!longest) {
    activity.since.store(0, std::memory_order_relaxed);
    return;
  }
  activity.waitingCommand.store(
      {longest->commands[longest->seen - 1], function},
      std::memory_order_relaxed);
  activity.waitingAxis.store(int32_t(itsAxis), std::memory_order_relaxed);
  activity.waitingSequence.store(longest->before + longest->seen,
                                 std::memory_order_relaxed);
  activity.since.store(longest->since.time_since_epoch().count(),
                       std::memory_order_release);
}

void NcclRank::look() {
  std::lock_guard lock(mutex);
  if (!isInCall)
    return;
  showActivity();
  for (const std::unique_ptr<Group> &group : groups) {
    Status status = group->communicator.look();
    if (status.ok())
      continue;
    // Read now: nothing of this group begins after what has failed.
    if (const uint32_t begun = read(*group).begun)
      fail(*group, begun, status);
  }
}

void NcclRank::abort() {
  {
    std::lock_guard lock(mutex);
    if (failure.ok())
      failure = unavailable(
          concat("rank ", rank, " was ended, since another rank has failed"));
  }
  for (const std::unique_ptr<Group> &group : groups)
    group->communicator.abort();
}

} // namespace optrt::nccl
