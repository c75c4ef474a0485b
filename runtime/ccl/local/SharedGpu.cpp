//===- SharedGpu.cpp - Ranks of one process on one GPU --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedGpu.h"

#include <algorithm>
#include <numeric>

namespace optrt {

static std::vector<int> firstRanks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

SharedGpu::SharedGpu(int numRanks)
    : members(numRanks), all(firstRanks(numRanks)) {}

Status SharedGpu::meet(Meeting &meeting, int index,
                       const std::function<Status()> &work) {
  const int rank = meeting.ranks[index];
  std::unique_lock lock(mutex);
  meeting.isPresent[index] = true;
  if (turn == rank)
    turn = kNobody;
  changed.notify_all();
  const uint64_t number = meeting.number;
  auto isOver = [&] { return meeting.number != number; };
  auto areThere = [&] {
    return std::all_of(meeting.isPresent.begin(), meeting.isPresent.end(),
                       [](bool isPresent) { return isPresent; });
  };
  changed.wait(lock, [&] {
    return isAborted || ((index == 0 ? areThere() : isOver()) &&
                         (!areTurns || turn == kNobody));
  });
  // A failure met by the first comes before its consequences.
  if (isOver() && !meeting.outcome.ok())
    return meeting.outcome;
  if (isAborted)
    return unavailable(
        concat("rank ", rank, " was ended, since another rank has failed"));
  if (areTurns)
    turn = rank;
  if (index != 0)
    return okStatus();
  lock.unlock();
  Status outcome = work();
  lock.lock();
  turn = areTurns ? rank : kNobody;
  meeting.outcome = outcome;
  meeting.isPresent.assign(meeting.isPresent.size(), false);
  ++meeting.number;
  changed.notify_all();
  return outcome;
}

bool SharedGpu::isAnyAbsent(std::span<const int> ranks) {
  std::lock_guard lock(mutex);
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return !all.isPresent[rank]; });
}

void SharedGpu::abort() {
  std::lock_guard lock(mutex);
  isAborted = true;
  changed.notify_all();
}

void SharedGpu::takeTurns(bool areTaken) {
  std::lock_guard lock(mutex);
  areTurns = areTaken;
}

} // namespace optrt
