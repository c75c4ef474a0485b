//===- Stall.cpp - Finds the rank that the others wait for ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stall.h"

#include "AwakeTime.h"

#include <algorithm>
#include <cstdio>

namespace optrt {

ActivitySnapshot snapshot(const RankActivity &activity) {
  using Clock = std::chrono::steady_clock;
  ActivitySnapshot copy;
  for (int axis = 0; axis != RankActivity::kMaxAxes; ++axis)
    copy.started[axis] = activity.started[axis].load(std::memory_order_relaxed);
  copy.command = activity.command.load(std::memory_order_relaxed);
  int64_t since = activity.since.load(std::memory_order_acquire);
  if (since == 0)
    return copy;
  copy.waitingCommand = activity.waitingCommand.load(std::memory_order_relaxed);
  copy.waitingAxis = activity.waitingAxis.load(std::memory_order_relaxed);
  copy.waitingSequence =
      activity.waitingSequence.load(std::memory_order_relaxed);
  copy.waitingPeer = activity.waitingPeer.load(std::memory_order_relaxed);
  // What was read belongs together only if the rank is still there.
  if (activity.since.load(std::memory_order_acquire) != since)
    return copy;
  copy.waitedSeconds =
      std::max(0.0, awakeSince(Clock::time_point(Clock::duration(since))));
  return copy;
}

namespace {

class Search {
public:
  Search(std::span<const RankReport> ranks, const optimus_support::Mesh &mesh,
         const CommandNames &names, double timeoutSeconds)
      : ranks(ranks), mesh(mesh), names(names), timeout(timeoutSeconds) {}

  std::optional<Stall> run() const {
    for (int rank = 0; rank != size(); ++rank)
      if (ranks[rank].gone)
        return Stall{rank, concat("rank ", rank, " died", lastWord(rank))};
    for (int rank = 0; rank != size(); ++rank)
      if (ranks[rank].silentSeconds > timeout)
        return Stall{rank, concat("rank ", rank, " was not heard of for ",
                                  seconds(ranks[rank].silentSeconds),
                                  ": its process is stopped or its host is "
                                  "out of reach",
                                  lastWord(rank))};
    for (int rank = 0; rank != size(); ++rank) {
      const ActivitySnapshot &at = ranks[rank].activity;
      if (at.waitedSeconds <= timeout)
        continue;
      if (at.waitingAxis == RankActivity::kMeeting)
        return findAbsent(rank);
      if (at.waitingAxis >= 0)
        return follow(rank);
    }
    return std::nullopt;
  }

private:
  int size() const { return static_cast<int>(ranks.size()); }

  static std::string seconds(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f s", value);
    return text;
  }

  std::string collectiveOf(int rank) const {
    const ActivitySnapshot &at = ranks[rank].activity;
    if (at.waitingAxis < 0)
      return "the exchange between two runs of a function";
    if (at.waitingSequence == 0)
      return concat(names(rank, at.waitingCommand), ", a message with rank ",
                    peerOf(rank));
    return concat(names(rank, at.waitingCommand), ", collective ",
                  at.waitingSequence, " on mesh axis ",
                  mesh.axes()[at.waitingAxis].name);
  }

  /// The ranks that differ from this one only in its index on an axis.
  std::vector<int> members(int rank, int axis) const {
    std::vector<int64_t> coordinates = mesh.coordinates(rank);
    std::vector<int> result;
    for (int64_t i = 0; i != mesh.axisSize(axis); ++i) {
      coordinates[axis] = i;
      result.push_back(static_cast<int>(mesh.rank(coordinates)));
    }
    return result;
  }

  /// The other end of the message that this rank waits for.
  int peerOf(int rank) const {
    const ActivitySnapshot &at = ranks[rank].activity;
    return members(rank, at.waitingAxis)[at.waitingPeer];
  }

  /// A member without the start that this rank waits for, or -1.
  int missing(int rank) const {
    const ActivitySnapshot &at = ranks[rank].activity;
    if (at.waitingSequence == 0)
      return peerOf(rank);
    for (int member : members(rank, at.waitingAxis))
      if (ranks[member].activity.started[at.waitingAxis] < at.waitingSequence)
        return member;
    return -1;
  }

  /// The last command of a dead rank, and a rank that waits for it.
  std::string lastWord(int rank) const {
    const ActivitySnapshot &at = ranks[rank].activity;
    std::string text = "; it had begun no command";
    if (at.waits())
      text = concat("; it was in ", collectiveOf(rank));
    else if (at.command.number != CommandId::kNone)
      text = concat("; the last known of it was ", names(rank, at.command));
    int longest = -1;
    for (int other = 0; other != size(); ++other)
      if (other != rank && ranks[other].activity.waits() &&
          (longest < 0 || ranks[other].activity.waitedSeconds >
                              ranks[longest].activity.waitedSeconds))
        longest = other;
    if (longest >= 0)
      text += concat("; rank ", longest, " has waited ",
                     seconds(ranks[longest].activity.waitedSeconds), " for ",
                     collectiveOf(longest));
    return text;
  }

  /// Who has not come to where all ranks meet.
  Stall findAbsent(int waiting) const {
    std::vector<int> absent;
    for (int rank = 0; rank != size(); ++rank)
      if (const ActivitySnapshot &at = ranks[rank].activity;
          !at.waits() || at.waitingAxis != RankActivity::kMeeting)
        absent.push_back(rank);
    const std::string waits = concat(
        "rank ", waiting, " has waited ",
        seconds(ranks[waiting].activity.waitedSeconds), " to begin with ");
    if (absent.empty())
      return {waiting, concat(waits, "the others, which are all ready: the "
                                     "network between them does not move")};
    std::string who =
        concat(absent.size() == 1 ? "rank " : "ranks ", absent[0]);
    for (size_t i = 1; i != absent.size(); ++i)
      who += concat(", ", absent[i]);
    return {absent[0],
            concat(who, absent.size() == 1 ? " is" : " are",
                   " not ready: ", waits, absent.size() == 1 ? "it" : "them")};
  }

  std::optional<Stall> follow(int waiting) const {
    for (int hops = 0; hops <= size(); ++hops) {
      int culprit = missing(waiting);
      std::string waits = concat("rank ", waiting, " has waited ",
                                 seconds(ranks[waiting].activity.waitedSeconds),
                                 " for ", collectiveOf(waiting));
      if (culprit < 0)
        return Stall{waiting,
                     concat(waits, ", which all its ranks have started: the "
                                   "network between them does not move")};
      const ActivitySnapshot &at = ranks[culprit].activity;
      if (!at.waits() || at.waitingAxis < 0)
        return Stall{culprit,
                     concat("rank ", culprit, " stalled ",
                            at.command.number == CommandId::kNone
                                ? std::string("before its first command")
                                : concat("in ", names(culprit, at.command)),
                            ": ", waits, ", which it has not started")};
      waiting = culprit;
    }
    return Stall{waiting, concat("ranks wait for each other: rank ", waiting,
                                 " waits for ", collectiveOf(waiting))};
  }

  std::span<const RankReport> ranks;
  const optimus_support::Mesh &mesh;
  const CommandNames &names;
  const double timeout;
};

} // namespace

std::optional<Stall> findStall(std::span<const RankReport> ranks,
                               const optimus_support::Mesh &mesh,
                               const CommandNames &names,
                               double timeoutSeconds) {
  std::optional<Stall> stall = Search(ranks, mesh, names, timeoutSeconds).run();
  if (stall && !ranks[stall->rank].place.empty())
    stall->message +=
        concat("; rank ", stall->rank, " ran as ", ranks[stall->rank].place);
  return stall;
}

} // namespace optrt
