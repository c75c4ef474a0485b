//===- QueuedRank.cpp - One rank's collectives on a GPU's queues ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueuedRank.h"

#include "../AwakeTime.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace optrt {

std::string axesName(const optimus_support::Mesh &mesh,
                     const Collectives::Axes &axes) {
  std::string name = axes.size() == 1 ? "mesh axis " : "mesh axes ";
  for (int axis : axes)
    name += (axis == axes.front() ? "" : "+") + mesh.axes()[axis].name;
  return name;
}

Status QueuedRank::makeRoom(size_t numGroups) {
  OPTRT_ASSIGN_OR_RETURN(
      words, device.allocateOnHost(int64_t(numGroups * sizeof(Progress)),
                                   "the progress of collectives"));
  if (numGroups == 0)
    return okStatus();
  // How a device writes words it may have to find out, which is no part of a
  // step.
  OPTRT_RETURN_IF_ERROR(
      device.post(kCompute, reinterpret_cast<uint32_t *>(words.data()), 0));
  return device.synchronize();
}

void QueuedRank::add(std::string name,
                     std::unique_ptr<QueuedCommunicator> communicator) {
  auto *progress = reinterpret_cast<Progress *>(words.data());
  auto group = std::make_unique<Group>();
  group->name = std::move(name);
  group->communicator = std::move(communicator);
  group->progress = progress + groups.size();
  groups.push_back(std::move(group));
}

double QueuedRank::abortSeconds(double timeoutSeconds) {
  constexpr double kMost = 30;
  return timeoutSeconds > 0 ? std::min(timeoutSeconds / 2, kMost) : kMost;
}

void QueuedRank::leave() {
  auto isFine = [this] {
    std::lock_guard lock(mutex);
    return failure.ok();
  };
  // Communicators stay as long as recordings use them. Queues are empty where
  // nothing has failed.
  if (isFine())
    device.discardRecordings();
  // All ranks leave each group together; what is left then is ended.
  bool areLeft = true;
  auto leaveOne = [&](const Group &group) {
    const Status left = group.communicator->leave();
    watch.noteFailure(left);
    return left.ok();
  };
  for (const std::unique_ptr<Group> &group : groups)
    if (!(areLeft = isFine() && leaveOne(*group)))
      break;
  if (!areLeft) {
    {
      std::lock_guard lock(mutex);
      leavingSince = Clock::now();
      abortAll();
    }
    // Work on queues writes the words, and the words go with this.
    (void)device.synchronize();
    device.discardRecordings();
    // The watch ends the job where that takes too long.
    while (!haveAllEnded())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  watch.remove(*this);
}

void QueuedRank::abortAll() {
  if (!abortedSince)
    abortedSince = Clock::now();
  for (const std::unique_ptr<Group> &group : groups)
    group->communicator->abort();
}

bool QueuedRank::haveAllEnded() const {
  return std::all_of(groups.begin(), groups.end(), [](const auto &group) {
    return group->communicator->hasEnded();
  });
}

// Between a call that has failed and leave() the rank may do other things.
std::string QueuedRank::findOverdue() {
  std::lock_guard lock(mutex);
  if (!abortedSince || (!isInCall && !leavingSince) || haveAllEnded())
    return "";
  const Clock::time_point since = leavingSince.value_or(*abortedSince);
  if (awakeSince(since) < secondsToEnd)
    return "";
  std::string names;
  for (const std::unique_ptr<Group> &group : groups)
    if (!group->communicator->hasEnded())
      names += (names.empty() ? "" : ", ") + group->name;
  return concat("rank ", rank, " could not abort its communicators of ", names,
                " within ", secondsToEnd, " s, so the process ends");
}

void QueuedRank::beginCall(uint32_t newFunction,
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

/// A collective without gaps between rows, and with one row where each rank has
/// a part.
static bool isOneStretch(const optrt_collective_desc &desc, bool isInParts,
                         int64_t ld) {
  return desc.outer <= 1 || (!isInParts && ld == desc.inner);
}

Status checkOneStretch(std::string_view who,
                       const optrt_collective_desc &desc) {
  if (isOneStretch(desc, readsBlocks(desc.kind), desc.src_ld) &&
      isOneStretch(desc, writesBlocks(desc.kind), desc.dst_ld))
    return okStatus();
  return internal(concat(who, " moves one stretch of memory; found ",
                         desc.outer, " rows of ", desc.inner,
                         ", which the compiler packs for --target cuda"));
}

Status QueuedRank::enqueue(Queue queue,
                           std::span<const QueuedCollective> together) {
  Group &group = *groups[together.front().desc->axis];
  const uint32_t first = group.enqueued + 1;
  group.enqueued += uint32_t(together.size());
  uint32_t number = first;
  for (const QueuedCollective &one : together) {
    if (Status status = group.communicator->check(one); !status.ok()) {
      std::lock_guard lock(mutex);
      fail(group, number, status);
      return failure;
    }
    ++number;
  }
  auto start = [&] { return group.communicator->enqueue(together, queue); };
  auto putAll = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(device.post(queue, &group.progress->begun, first));
    OPTRT_RETURN_IF_ERROR(put(start, isFirstCall));
    return device.post(queue, &group.progress->done, group.enqueued);
  };
  Status status = putAll();
  // Where the GPU tells late, it may be another command's.
  if (status.ok() || !device.adviceOnLateFailure().empty())
    return status;
  std::lock_guard lock(mutex);
  // A library's finding is about the GPU's work of the moment.
  const Progress at = read(group);
  const bool isUnderWay =
      status.code() != StatusCode::Internal && at.done < at.begun;
  fail(group, isUnderWay ? at.begun : first, status);
  return failure;
}

void QueuedRank::fail(const Group &group, uint32_t number,
                      const Status &status) {
  if (!failure.ok())
    return;
  failure = status.withContext(
      concat("rank ", rank, ", ",
             control.nameOf(rank, {group.commands[number - 1], function}),
             ", collective ", group.before + number, " on ", group.name));
  watch.noteFailure(failure);
  // Whatever waits for this group does not come to an end by itself.
  abortAll();
}

Status QueuedRank::check() {
  look();
  std::lock_guard lock(mutex);
  return failure;
}

Status QueuedRank::endCall() {
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

QueuedRank::Progress QueuedRank::read(const Group &group) {
  // What is done was begun.
  const uint32_t done =
      __atomic_load_n(&group.progress->done, __ATOMIC_ACQUIRE);
  return {__atomic_load_n(&group.progress->begun, __ATOMIC_ACQUIRE), done};
}

std::optional<QueuedRank::HostWait> QueuedRank::readProgress() {
  const Clock::time_point now = Clock::now();
  std::optional<HostWait> longest;
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
        (!longest || group.since < longest->since))
      longest = HostWait{int32_t(axis), group.seen, group.since};
  }
  return longest;
}

void QueuedRank::showActivity() {
  std::optional<HostWait> wait = readProgress();
  // Its queues may be far behind.
  if (std::optional<HostWait> onHost = hostWait()) {
    wait = onHost;
    if (onHost->axis >= 0)
      activity.started[onHost->axis].store(groups[onHost->axis]->before +
                                               onHost->number,
                                           std::memory_order_relaxed);
  }
  if (!wait) {
    activity.since.store(0, std::memory_order_relaxed);
    return;
  }
  activity.waitingAxis.store(wait->axis, std::memory_order_relaxed);
  if (wait->axis >= 0) {
    const Group &group = *groups[wait->axis];
    activity.waitingCommand.store({group.commands[wait->number - 1], function},
                                  std::memory_order_relaxed);
    activity.waitingSequence.store(group.before + wait->number,
                                   std::memory_order_relaxed);
  }
  activity.since.store(wait->since.time_since_epoch().count(),
                       std::memory_order_release);
}

void QueuedRank::look() {
  std::lock_guard lock(mutex);
  if (!isInCall)
    return;
  showActivity();
  for (const std::unique_ptr<Group> &group : groups) {
    Status status = group->communicator->look();
    if (status.ok())
      continue;
    // Read now: nothing of this group begins after what has failed.
    if (const uint32_t begun = read(*group).begun)
      fail(*group, begun, status);
  }
}

void QueuedRank::abort() {
  std::lock_guard lock(mutex);
  if (failure.ok())
    failure = unavailable(
        concat("rank ", rank, " was ended, since another rank has failed"));
  abortAll();
}

} // namespace optrt
