//===- LocalWorld.cpp - Ranks as threads of one process -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective has three moments. At the start a rank posts its buffers. In
// its wait it first blocks until every member has posted, then does its share
// of the work straight between the members' buffers, and at last blocks until
// nobody needs its buffers any more. Reductions give every element to exactly
// one rank, which reads it from all members in rank order and writes it to all
// destinations: the bits do not depend on timing, and in-place operation needs
// no extra buffer.
//
//===----------------------------------------------------------------------===//

#include "../RankOrderReduction.h"
#include "optimus-runtime/World.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace optrt {
namespace {

void relaxProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// A counter that threads wait on. It wraps around; bit 0 says that the job
/// was aborted, so that setting it wakes every waiter.
class WaitableCounter {
public:
  /// Adds one and wakes the waiters when that reaches `target`.
  void add(uint32_t target) {
    uint32_t now = value.fetch_add(2, std::memory_order_acq_rel) + 2;
    if ((now & ~1u) == 2 * target)
      value.notify_all();
  }

  /// Blocks until the count has reached `target`; false after an abort.
  /// Spinning shortens the wait of ranks that have a core each; when they
  /// share cores it takes time from the rank that is waited for.
  bool waitFor(uint32_t target, int spins) {
    uint32_t now = value.load(std::memory_order_acquire);
    for (int i = 0; i < spins && !reached(now, target) && !(now & 1); ++i) {
      relaxProcessor();
      now = value.load(std::memory_order_acquire);
    }
    while (!(now & 1)) {
      if (reached(now, target))
        return true;
      value.wait(now, std::memory_order_acquire);
      now = value.load(std::memory_order_acquire);
    }
    return false;
  }

  void abort() {
    value.fetch_or(1, std::memory_order_acq_rel);
    value.notify_all();
  }

private:
  static bool reached(uint32_t now, uint32_t target) {
    return static_cast<int32_t>((now & ~1u) - 2 * target) >= 0;
  }

  std::atomic<uint32_t> value{0};
};

/// What one member brings to a collective.
struct Posting {
  uint32_t id;
  optrt_collective_desc desc;
  const float *src;
  float *dst;
};

/// One collective in flight. A slot is used again and again; its counters run
/// on, n for every use.
struct Slot {
  alignas(64) WaitableCounter posted;
  alignas(64) WaitableCounter finished;
  std::vector<Posting> postings;
};

/// What the members of one communicator share.
struct Group {
  Group(int size, int spins) : size(size), spins(spins) {
    for (Slot &slot : slots)
      slot.postings.resize(size);
  }

  void abort() {
    for (Slot &slot : slots) {
      slot.posted.abort();
      slot.finished.abort();
    }
  }

  const int size;
  const int spins;
  std::array<Slot, Communicator::kMaxInFlight> slots;
};

/// The part [begin, end) of `count` elements that member `index` reduces.
/// Whole cache lines, so that members do not write to the same one; a small
/// tensor is left to the first member.
std::pair<int64_t, int64_t> reductionShare(int64_t count, int index, int n) {
  constexpr int64_t kGrain = 256;
  int64_t units = (count + kGrain - 1) / kGrain;
  auto bound = [&](int64_t i) {
    return std::min(count, units * i / n * kGrain);
  };
  return {bound(index), bound(index + 1)};
}

/// Calls body(row, column, length) for pieces of at most kReductionBlock
/// elements that cover the elements [begin, end) of a matrix with `inner`
/// columns.
template <typename Body>
void forEachPiece(int64_t begin, int64_t end, int64_t inner, Body body) {
  for (int64_t e = begin; e < end;) {
    int64_t row = e / inner, column = e % inner;
    int64_t length = std::min(
        {inner - column, end - e, static_cast<int64_t>(kReductionBlock)});
    body(row, column, length);
    e += length;
  }
}

void copyMatrix(float *dst, int64_t dstLd, const float *src, int64_t srcLd,
                int64_t outer, int64_t inner) {
  if (dst == src)
    return;
  if (dstLd == inner && srcLd == inner) {
    inner *= outer;
    outer = 1;
  }
  for (int64_t row = 0; row != outer; ++row)
    std::memcpy(dst + row * dstLd, src + row * srcLd, inner * sizeof(float));
}

class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<Group> group, int index)
      : group(std::move(group)), rankIndex(index) {}

  int size() const override { return group->size; }
  int index() const override { return rankIndex; }

  Status start(uint32_t id, const optrt_collective_desc &desc, const float *src,
               float *dst) override {
    if (inFlight.size() == kMaxInFlight)
      return internal("command " + std::to_string(id) +
                      " starts a collective while " +
                      std::to_string(kMaxInFlight) +
                      " others on its axis are not waited for");
    uint64_t sequence = nextSequence++;
    Slot &slot = slotOf(sequence);
    // The members before may still be busy with the slot's last use.
    if (!slot.finished.waitFor(useOf(sequence) * size(), group->spins))
      return abortedStatus();
    slot.postings[rankIndex] = {id, desc, src, dst};
    slot.posted.add((useOf(sequence) + 1) * size());
    inFlight.push_back({id, sequence});
    return okStatus();
  }

  Status wait(uint32_t id) override {
    auto it = std::find_if(inFlight.begin(), inFlight.end(),
                           [&](const InFlight &f) { return f.id == id; });
    if (it == inFlight.end())
      return internal("command " + std::to_string(id) +
                      " is waited for but was not started");
    uint64_t sequence = it->sequence;
    inFlight.erase(it);

    Slot &slot = slotOf(sequence);
    uint32_t everyone = (useOf(sequence) + 1) * size();
    if (!slot.posted.waitFor(everyone, group->spins))
      return abortedStatus();
    if (Status status = checkPostings(slot); !status.ok())
      return status;
    bool othersNeedUs = perform(slot);
    slot.finished.add(everyone);
    if (othersNeedUs && !slot.finished.waitFor(everyone, group->spins))
      return abortedStatus();
    return okStatus();
  }

private:
  struct InFlight {
    uint32_t id;
    uint64_t sequence;
  };

  Slot &slotOf(uint64_t sequence) {
    return group->slots[sequence % kMaxInFlight];
  }
  /// How often the slot was used before; modulo 2^32, like the counters.
  static uint32_t useOf(uint64_t sequence) {
    return static_cast<uint32_t>(sequence / kMaxInFlight);
  }

  static Status abortedStatus() {
    return unavailable("left a collective because another rank failed");
  }

  /// All members must have started the same collective.
  Status checkPostings(const Slot &slot) const {
    const Posting &own = slot.postings[rankIndex];
    for (int r = 0; r != size(); ++r) {
      const Posting &other = slot.postings[r];
      if (other.id == own.id && other.desc.kind == own.desc.kind &&
          other.desc.reduction == own.desc.reduction &&
          other.desc.root == own.desc.root &&
          other.desc.outer == own.desc.outer &&
          other.desc.inner == own.desc.inner)
        continue;
      return internal(
          "ranks disagree on mesh axis " + std::to_string(own.desc.axis) +
          ": index " + std::to_string(rankIndex) + " runs " + describe(own) +
          " where index " + std::to_string(r) + " runs " + describe(other));
    }
    return okStatus();
  }

  static std::string describe(const Posting &posting) {
    return "command " + std::to_string(posting.id) + " (kind " +
           std::to_string(posting.desc.kind) + ", root " +
           std::to_string(posting.desc.root) + ", " +
           std::to_string(posting.desc.outer) + "x" +
           std::to_string(posting.desc.inner) + ")";
  }

  /// Does this rank's share; true when the others may still use its buffers.
  bool perform(Slot &slot) {
    const std::vector<Posting> &all = slot.postings;
    const Posting &own = all[rankIndex];
    const optrt_collective_desc &desc = own.desc;
    int64_t outer = desc.outer, inner = desc.inner;
    if (outer == 0 || inner == 0)
      return false;
    switch (desc.kind) {
    case OPTRT_BROADCAST: {
      const Posting &root = all[desc.root];
      copyMatrix(own.dst, desc.dst_ld, root.src, root.desc.src_ld, outer,
                 inner);
      return rankIndex == desc.root;
    }
    case OPTRT_REDUCE:
      reduceShare(all, {&all[desc.root], 1});
      return true;
    case OPTRT_ALL_REDUCE:
      reduceShare(all, all);
      return true;
    case OPTRT_ALL_GATHER:
      for (int r = 0; r != size(); ++r)
        copyMatrix(own.dst + r * inner, desc.dst_ld, all[r].src,
                   all[r].desc.src_ld, outer, inner);
      return true;
    case OPTRT_REDUCE_SCATTER:
      forEachPiece(0, outer * inner, inner,
                   [&](int64_t row, int64_t column, int64_t length) {
                     reduceBlock(
                         desc.reduction, size(),
                         [&](int r) {
                           return all[r].src + row * all[r].desc.src_ld +
                                  rankIndex * inner + column;
                         },
                         own.dst + row * desc.dst_ld + column, length);
                   });
      return true;
    }
    assert(false && "the kind was checked at the start");
    return true;
  }

  /// Reduces this rank's part of the elements into all `destinations`, which
  /// may be sources too.
  void reduceShare(std::span<const Posting> sources,
                   std::span<const Posting> destinations) {
    const optrt_collective_desc &desc = sources[rankIndex].desc;
    // Without gaps between rows the matrix is one long row.
    bool dense =
        std::all_of(sources.begin(), sources.end(), [&](const Posting &p) {
          return p.desc.src_ld == desc.inner && p.desc.dst_ld == desc.inner;
        });
    int64_t count = desc.outer * desc.inner;
    auto [begin, end] = reductionShare(count, rankIndex, size());
    forEachPiece(begin, end, dense ? count : desc.inner,
                 [&](int64_t row, int64_t column, int64_t length) {
                   alignas(64) float result[kReductionBlock];
                   reduceBlock(
                       desc.reduction, size(),
                       [&](int r) {
                         return sources[r].src + row * sources[r].desc.src_ld +
                                column;
                       },
                       result, length);
                   for (const Posting &to : destinations)
                     std::memcpy(to.dst + row * to.desc.dst_ld + column, result,
                                 length * sizeof(float));
                 });
  }

  std::shared_ptr<Group> group;
  const int rankIndex;
  uint64_t nextSequence = 0;
  std::vector<InFlight> inFlight;
};

class LocalWorld final : public World {
public:
  std::string_view name() const override { return "local"; }

  Status configure(std::span<const int64_t> axisSizes) override {
    int64_t product = 1;
    for (int64_t axisSize : axisSizes)
      product *= axisSize;
    numRanks = static_cast<int>(product);
    int spins =
        product <= static_cast<int64_t>(std::thread::hardware_concurrency())
            ? 1000
            : 0;

    groups.clear();
    communicators.clear();
    communicators.resize(numRanks);
    for (std::size_t axis = 0; axis != axisSizes.size(); ++axis) {
      // Ranks that differ only in this axis lie `stride` apart.
      int stride = 1;
      for (std::size_t next = axis + 1; next != axisSizes.size(); ++next)
        stride *= static_cast<int>(axisSizes[next]);
      int n = static_cast<int>(axisSizes[axis]);
      std::vector<std::shared_ptr<Group>> groupOfFirst(numRanks);
      for (int rank = 0; rank != numRanks; ++rank) {
        int index = rank / stride % n;
        std::shared_ptr<Group> &group = groupOfFirst[rank - index * stride];
        if (!group)
          groups.push_back(group = std::make_shared<Group>(n, spins));
        communicators[rank].push_back(
            std::make_unique<LocalCommunicator>(group, index));
      }
    }
    return okStatus();
  }

  int size() const override { return numRanks; }
  int firstRank() const override { return 0; }
  int numLocalRanks() const override { return numRanks; }
  int ranksOnThisHost() const override { return numRanks; }

  Communicator &communicator(int rank, int axis) override {
    return *communicators[rank][axis];
  }

  void abort() override {
    for (const std::shared_ptr<Group> &group : groups)
      group->abort();
  }

  std::vector<std::string> allGather(const std::string &own) override {
    return {own};
  }

  Status sendToRoot(int, float *, std::size_t) override { return okStatus(); }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

private:
  int numRanks = 1;
  std::vector<std::shared_ptr<Group>> groups;
  std::vector<std::vector<std::unique_ptr<LocalCommunicator>>> communicators;
};

} // namespace

std::unique_ptr<World> createLocalWorld() {
  return std::make_unique<LocalWorld>();
}

} // namespace optrt
