//===- LocalGroup.h - The members of a communicator of thread ranks -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective has three moments. A rank posts its buffers when it starts it.
// The last member to post makes it ready: its chunks may be performed, by any
// thread. It is complete when all are done. A member that waits for a ready
// collective performs chunks itself instead of sleeping; one that nobody waits
// for is left to the progress thread. A small one is performed at once by the
// member that makes it ready.
//
// A message is a collective of two members, its sender and its receiver, in a
// group of theirs for that direction: it waits for nobody else.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_LOCALGROUP_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_LOCALGROUP_H

#include "Chunks.h"
#include "WaitableCounter.h"
#include "optimus-runtime/Collectives.h"

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace optrt {

/// What the members of one communicator share. The collectives of a group are
/// numbered in the order in which every member starts them.
class LocalGroup {
public:
  using Clock = std::chrono::steady_clock;

  /// A member spins `spins` times before it sleeps. The control plane names
  /// commands.
  LocalGroup(int size, int spins, const ControlPlane &control);

  int size() const { return numMembers; }

  /// That of the messages from one member to another, made when it is first
  /// asked for; the sender is its member 0.
  std::shared_ptr<LocalGroup> messagesBetween(int from, int to);

  /// Posts member `index`'s part of collective `sequence`. Blocks while the
  /// one kMaxInFlight before it is incomplete. `leftToOthers` becomes true when
  /// this made the collective ready, somebody must perform it, and nobody is
  /// waiting for it.
  Status post(uint64_t sequence, int index, const Posting &posting,
              bool &leftToOthers);

  /// Called by a member that has posted it: helps with a collective and returns
  /// when it is complete.
  Status finish(uint64_t sequence);

  /// Whether finish() would sleep for want of a member.
  bool isReady(uint64_t sequence) {
    return slotOf(sequence).ready.hasReached(useOf(sequence) + 1);
  }
  bool isComplete(uint64_t sequence) {
    return slotOf(sequence).complete.hasReached(useOf(sequence) + 1);
  }

  /// Performs one chunk of a ready collective; false when none is left.
  bool performOne(uint64_t sequence);

  /// When a collective that is complete became so, at the latest `now`.
  Clock::time_point completedAt(uint64_t sequence, Clock::time_point now);

  /// Makes every member leave its waits, now and later.
  void abort();

private:
  /// One collective in flight. A slot is used again and again; its counters
  /// run on, by one for every use, so that a late look at an earlier use finds
  /// it complete.
  struct Slot {
    /// Members that have posted, modulo the size.
    alignas(64) std::atomic<uint32_t> arrived{0};
    /// Members in finish().
    std::atomic<int> waiters{0};
    std::vector<Posting> postings;
    std::atomic<int64_t> chunks{0};
    alignas(64) WaitableCounter ready;
    /// The use in the upper half, the next chunk in the lower.
    alignas(64) std::atomic<uint64_t> claims{0};
    std::atomic<int64_t> chunksDone{0};
    alignas(64) WaitableCounter complete;
    std::atomic<int64_t> completeTicks{0};
  };

  Slot &slotOf(uint64_t sequence) {
    return slots[sequence % Communicator::kMaxInFlight];
  }
  /// How often the slot was used before; modulo 2^32, like the counters.
  static uint32_t useOf(uint64_t sequence) {
    return static_cast<uint32_t>(sequence / Communicator::kMaxInFlight);
  }

  Status checkPostings(const Slot &slot) const;
  void markComplete(Slot &slot);
  Status failure();

  const int numMembers;
  const int spins;
  const ControlPlane &control;
  std::array<Slot, Communicator::kMaxInFlight> slots;
  std::atomic<bool> aborted{false}, disagreed{false};
  std::mutex mutex;
  Status disagreement; ///< under `mutex`; the first stays
  std::map<std::pair<int, int>, std::shared_ptr<LocalGroup>>
      messages; ///< under `mutex`
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_LOCALGROUP_H
