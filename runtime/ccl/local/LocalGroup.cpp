//===- LocalGroup.cpp - The members of a communicator of thread ranks -----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include "../Agreement.h"

namespace optrt {
LocalGroup::LocalGroup(int size, int spins, const ControlPlane &control)
    : numMembers(size), spins(spins), control(control) {
  for (Slot &slot : slots)
    slot.postings.resize(size);
}

std::shared_ptr<LocalGroup> LocalGroup::messagesBetween(int from, int to) {
  std::lock_guard lock(mutex);
  std::shared_ptr<LocalGroup> &group = messages[{from, to}];
  if (!group) {
    group = std::make_shared<LocalGroup>(2, spins, control);
    if (aborted.load(std::memory_order_acquire))
      group->abort();
  }
  return group;
}

Status LocalGroup::failure() {
  std::lock_guard lock(mutex);
  return disagreement.ok()
             ? unavailable("left a collective because another rank failed")
             : disagreement;
}

Status LocalGroup::checkPostings(const Slot &slot) const {
  auto started = [&](int index) -> StartedCollective {
    const Posting &posting = slot.postings[index];
    return {posting.rank, posting.id, posting.desc};
  };
  for (int r = 1; r != size(); ++r)
    OPTRT_RETURN_IF_ERROR(checkAgreement(control, started(0), started(r)));
  return okStatus();
}

void LocalGroup::markComplete(Slot &slot) {
  slot.completeTicks.store(Clock::now().time_since_epoch().count(),
                           std::memory_order_relaxed);
  slot.complete.increment();
}

Status LocalGroup::post(uint64_t sequence, int index, const Posting &posting,
                        bool &leftToOthers) {
  Slot &slot = slotOf(sequence);
  uint32_t use = useOf(sequence);
  if (aborted.load(std::memory_order_acquire))
    return failure();
  // The slot's last use may be incomplete.
  if (use != 0 && !slot.complete.hasReached(use))
    OPTRT_RETURN_IF_ERROR(finish(sequence - Communicator::kMaxInFlight));
  slot.postings[index] = posting;
  leftToOthers = false;
  uint32_t arrived = slot.arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived != static_cast<uint32_t>(size()))
    return okStatus();

  // The last one.
  slot.arrived.store(0, std::memory_order_relaxed);
  if (Status status = checkPostings(slot); !status.ok()) {
    {
      std::lock_guard lock(mutex);
      disagreement = status;
    }
    disagreed.store(true, std::memory_order_release);
    abort();
    return okStatus();
  }
  const optrt_collective_desc &desc = posting.desc;
  int64_t chunks = numChunks(desc, size());
  slot.chunks.store(chunks, std::memory_order_relaxed);
  if (isSmall(desc, size())) {
    slot.claims.store(uint64_t(use) << 32 | 0xffffffff,
                      std::memory_order_relaxed);
    for (int64_t chunk = 0; chunk != chunks; ++chunk)
      runChunk(slot.postings, chunk);
    markComplete(slot);
    // After completion, so that its waiters wake once.
    slot.ready.increment();
    return okStatus();
  }
  slot.chunksDone.store(0, std::memory_order_relaxed);
  slot.claims.store(uint64_t(use) << 32, std::memory_order_release);
  leftToOthers = slot.waiters.load(std::memory_order_acquire) == 0;
  slot.ready.increment();
  return okStatus();
}

bool LocalGroup::performOne(uint64_t sequence) {
  Slot &slot = slotOf(sequence);
  const uint64_t use = useOf(sequence);
  uint64_t claim = slot.claims.load(std::memory_order_acquire);
  do {
    if (aborted.load(std::memory_order_acquire) || claim >> 32 != use ||
        static_cast<int64_t>(claim & 0xffffffff) >=
            slot.chunks.load(std::memory_order_relaxed))
      return false;
  } while (!slot.claims.compare_exchange_weak(claim, claim + 1,
                                              std::memory_order_acq_rel));
  runChunk(slot.postings, static_cast<int64_t>(claim & 0xffffffff));
  // The slot is not used again before its last chunk is counted.
  int64_t chunks = slot.chunks.load(std::memory_order_relaxed);
  if (slot.chunksDone.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks)
    markComplete(slot);
  return true;
}

Status LocalGroup::finish(uint64_t sequence) {
  Slot &slot = slotOf(sequence);
  uint32_t past = useOf(sequence) + 1;
  if (!slot.complete.hasReached(past)) {
    slot.waiters.fetch_add(1, std::memory_order_acq_rel);
    bool ready = slot.ready.waitFor(past, spins);
    slot.waiters.fetch_sub(1, std::memory_order_acq_rel);
    if (!ready)
      return failure();
    while (performOne(sequence))
      ;
    if (!slot.complete.waitFor(past, spins))
      return failure();
  }
  return disagreed.load(std::memory_order_acquire) ? failure() : okStatus();
}

LocalGroup::Clock::time_point LocalGroup::completedAt(uint64_t sequence,
                                                      Clock::time_point now) {
  Slot &slot = slotOf(sequence);
  Clock::time_point at{
      Clock::duration(slot.completeTicks.load(std::memory_order_relaxed))};
  // A later use of the slot may have been completed since: then this one is
  // known to be earlier, and no more.
  return slot.complete.hasReached(useOf(sequence) + 2) ? now
                                                       : std::min(at, now);
}

void LocalGroup::abort() {
  {
    // Whoever makes a group of messages after this finds it aborted.
    std::lock_guard lock(mutex);
    aborted.store(true, std::memory_order_release);
    for (auto &[ends, group] : messages)
      group->abort();
  }
  for (Slot &slot : slots) {
    slot.ready.abort();
    slot.complete.abort();
  }
}

} // namespace optrt
