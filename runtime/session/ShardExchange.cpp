//===- ShardExchange.cpp - Between shards and whole tensors ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardExchange.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

using namespace optrt;
using namespace optimus_support;

ShardExchange::ShardExchange(ControlPlane &control, const Manifest &manifest,
                             std::vector<RankBuffers *> ranks, Holds holds)
    : control(control), manifest(manifest), perProcess(control.numLocalRanks()),
      ranks(std::move(ranks)), holds(std::move(holds)) {}

int64_t ShardExchange::replicaFor(int64_t buffer, int64_t rank) const {
  for (int64_t other = 0; !isHolding(buffer, rank) && other != control.size();
       ++other)
    if (isHolding(buffer, other))
      return other;
  return rank;
}

template <typename Fn>
void ShardExchange::forEachShare(const Slab &slab, int rank, int replicaOf,
                                 Fn fn) const {
  Share share;
  int64_t at = 0;
  for (const BufferPart &part : slab) {
    share.at = std::exchange(at, at + part.count);
    if (part.buffer == BufferPart::kNoBuffer)
      continue;
    const ShardLayout &layout = manifest.buffers[part.buffer].layout;
    if (!isHolding(part.buffer, rank) ||
        (replicaOf != kAnyReplica &&
         !layout.areOfOneReplica(manifest.mesh, rank,
                                 replicaFor(part.buffer, replicaOf))))
      continue;
    share.buffer = part.buffer;
    share.part = part.begin;
    share.runs.clear();
    ShardRuns runs(layout, manifest.mesh, rank);
    runs.skipTo(part.begin);
    for (ShardRun run; runs.takeBefore(part.begin + part.count, run);)
      share.runs.push_back(run);
    if (!share.runs.empty()) {
      share.begin = share.runs.front().localOffset;
      share.end = share.runs.back().localOffset + share.runs.back().count;
      fn(std::as_const(share));
    }
  }
}

template <typename Fn>
void ShardExchange::forEachGiven(const Slab &slab, int from, int to,
                                 Fn fn) const {
  for (int rank = from * perProcess; rank != (from + 1) * perProcess; ++rank)
    forEachShare(slab, rank, /*replicaOf=*/to * perProcess,
                 [&](const Share &share) { fn(share, rank); });
}

bool ShardExchange::isPartOf(const Slab &slab, int process) const {
  bool isPart = false;
  for (int rank = process * perProcess; rank != (process + 1) * perProcess;
       ++rank)
    forEachShare(slab, rank, kAnyReplica,
                 [&](const Share &) { isPart = true; });
  return isPart;
}

int ShardExchange::holderOf(const BufferPart &part, int64_t turn) const {
  if (part.buffer == BufferPart::kNoBuffer)
    return -1;
  const ShardLayout &layout = manifest.buffers[part.buffer].layout;
  int64_t rank = layout.holderOf(manifest.mesh, part.begin, turn);
  // As many replicas as ranks, at most.
  for (int64_t i = 1; !isHolding(part.buffer, rank) && i <= control.size(); ++i)
    rank = layout.holderOf(manifest.mesh, part.begin, turn + i);
  return static_cast<int>(rank / perProcess);
}

template <typename Word, typename Fn>
Status ShardExchange::read(const Share &share, int rank, Fn fn) {
  RankBuffers &buffers = buffersOf(rank);
  std::vector<Word> copy;
  std::unique_lock guard(device, std::defer_lock);
  if (!buffers.isOnHost(share.buffer))
    guard.lock();
  OPTRT_ASSIGN_OR_RETURN(
      const Word *elements,
      buffers.read(share.buffer, share.begin, share.end - share.begin, copy));
  for (const ShardRun &run : share.runs)
    fn(run, elements + (run.localOffset - share.begin));
  return okStatus();
}

template <typename Fn>
Status ShardExchange::write(const Share &share, int rank, Fn fn) {
  RankBuffers &buffers = buffersOf(rank);
  std::unique_lock guard(device, std::defer_lock);
  if (!buffers.isOnHost(share.buffer))
    guard.lock();
  return buffers.write(
      share.buffer, share.begin, share.end - share.begin, [&](float *to) {
        for (const ShardRun &run : share.runs)
          std::copy_n(fn(run), run.count, to + (run.localOffset - share.begin));
      });
}

/// memcpy() past the caches, where the processor has such stores. Other threads
/// may look at it after finishStores().
static void copyPastCaches(std::byte *to, const std::byte *from,
                           std::size_t bytes) {
#ifdef __SSE2__
  // The ends of short runs would take longer than the runs.
  constexpr std::size_t kWord = sizeof(__m128i), kLeast = 8 * kWord;
  if (bytes >= kLeast) {
    const std::size_t head = -reinterpret_cast<uintptr_t>(to) % kWord;
    std::memcpy(to, from, head);
    for (to += head, from += head, bytes -= head; bytes >= kWord;
         to += kWord, from += kWord, bytes -= kWord)
      _mm_stream_si128(
          reinterpret_cast<__m128i *>(to),
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  }
#endif
  std::memcpy(to, from, bytes);
}

static void finishStores() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

template <typename Word>
Status ShardExchange::giveWords(const Slab &slab, int to,
                                std::span<Word> room) {
  Status failure;
  forEachGiven(slab, process(), to, [&](const Share &share, int rank) {
    auto place = [&](const ShardRun &run) {
      return &room[share.at + run.globalOffset - share.part];
    };
    Status given =
        read<Word>(share, rank, [&](const ShardRun &run, const Word *elements) {
          if (isForLater)
            copyPastCaches(reinterpret_cast<std::byte *>(place(run)),
                           reinterpret_cast<const std::byte *>(elements),
                           run.count * sizeof(Word));
          else
            std::copy_n(elements, run.count, place(run));
        });
    if (given.ok())
      return;
    for (const ShardRun &run : share.runs)
      std::fill_n(place(run), run.count, Word());
    keepFirst(failure, std::move(given));
  });
  if (isForLater)
    finishStores();
  return failure;
}

Status ShardExchange::give(const Slab &slab, int to, std::span<float> room) {
  return giveWords(slab, to, room);
}

Status ShardExchange::distributeHere(const Slab &slab,
                                     std::span<const float> own) {
  Status failure;
  for (int local = 0; local != perProcess; ++local) {
    const int rank = control.firstRank() + local;
    forEachShare(slab, rank, kAnyReplica, [&](const Share &share) {
      keepFirst(failure, write(share, rank, [&](const ShardRun &run) {
                  return &own[share.at + run.globalOffset - share.part];
                }));
    });
  }
  return failure;
}

// In each of the following exchanges, a process sends to the process so many
// places further and receives from the one as many before it: all send and
// receive something at a time, and nobody waits in a circle.

/// Control planes move floats, and as bits.
template <typename Word>
static Status exchangeWords(ControlPlane &control, int to,
                            std::span<const Word> out, int from,
                            std::span<Word> in) {
  if constexpr (std::is_same_v<Word, float>) {
    return control.exchange(to, out, from, in);
  } else {
    auto numFloats = [](auto words) {
      return (words.size_bytes() + sizeof(float) - 1) / sizeof(float);
    };
    std::vector<float> sent(numFloats(out)), received(numFloats(in));
    std::memcpy(sent.data(), out.data(), out.size_bytes());
    OPTRT_RETURN_IF_ERROR(control.exchange(to, sent, from, received));
    std::memcpy(in.data(), received.data(), in.size_bytes());
    return okStatus();
  }
}

Status ShardExchange::collect(std::span<const Slab> slabs, std::span<float> own,
                              const IsShared &isShared) {
  return collectWords(slabs, own, out, in, isShared);
}

template <typename Word>
Status ShardExchange::collect(std::span<const Slab> slabs,
                              std::span<Word> own) {
  std::vector<Word> out, in;
  return collectWords(slabs, own, out, in);
}

template Status ShardExchange::collect(std::span<const Slab>,
                                       std::span<uint8_t>);
template Status ShardExchange::collect(std::span<const Slab>,
                                       std::span<uint16_t>);
template Status ShardExchange::collect(std::span<const Slab>,
                                       std::span<uint64_t>);

template <typename Word>
Status ShardExchange::collectWords(std::span<const Slab> slabs,
                                   std::span<Word> own, std::vector<Word> &out,
                                   std::vector<Word> &in,
                                   const IsShared &isShared) {
  const int processes = numProcesses(), here = process();
  // Whatever is not sent.
  static const Slab kNothing;
  auto sent = [&](int from, int to) -> const Slab & {
    return isShared && isShared(from, to) ? kNothing : slabs[to];
  };
  Status failure = giveWords(slabs[here], here, own);
  for (int shift = 1; shift != processes; ++shift) {
    const int to = (here + shift) % processes;
    const int from = (here + processes - shift) % processes;
    out.clear();
    forEachGiven(sent(here, to), here, to, [&](const Share &share, int rank) {
      Status given = read<Word>(
          share, rank, [&](const ShardRun &run, const Word *elements) {
            out.insert(out.end(), elements, elements + run.count);
          });
      if (given.ok())
        return;
      for (const ShardRun &run : share.runs)
        out.resize(out.size() + run.count);
      keepFirst(failure, std::move(given));
    });
    std::size_t expected = 0;
    forEachGiven(sent(from, here), from, here, [&](const Share &share, int) {
      for (const ShardRun &run : share.runs)
        expected += run.count;
    });
    in.resize(expected);
    OPTRT_RETURN_IF_ERROR(exchangeWords<Word>(control, to * perProcess, out,
                                              from * perProcess, in));
    const Word *next = in.data();
    forEachGiven(sent(from, here), from, here, [&](const Share &share, int) {
      for (const ShardRun &run : share.runs) {
        std::copy_n(next, run.count,
                    &own[share.at + run.globalOffset - share.part]);
        next += run.count;
      }
    });
  }
  return failure;
}

Status ShardExchange::distribute(std::span<const Slab> slabs,
                                 std::span<const float> own,
                                 const Serves &serves) {
  const int processes = numProcesses(), here = process();
  Status failure = distributeHere(slabs[here], own);
  for (int shift = 1; shift != processes; ++shift) {
    const int to = (here + shift) % processes;
    const int from = (here + processes - shift) % processes;
    out.clear();
    if (serves(here, to))
      for (int rank = to * perProcess; rank != (to + 1) * perProcess; ++rank)
        forEachShare(slabs[here], rank, kAnyReplica, [&](const Share &share) {
          for (const ShardRun &run : share.runs) {
            const float *elements =
                &own[share.at + run.globalOffset - share.part];
            out.insert(out.end(), elements, elements + run.count);
          }
        });
    std::size_t expected = 0;
    if (serves(from, here))
      for (int local = 0; local != perProcess; ++local)
        forEachShare(slabs[from], control.firstRank() + local, kAnyReplica,
                     [&](const Share &share) {
                       for (const ShardRun &run : share.runs)
                         expected += run.count;
                     });
    in.resize(expected);
    OPTRT_RETURN_IF_ERROR(
        control.exchange(to * perProcess, out, from * perProcess, in));
    if (in.empty())
      continue;
    const float *next = in.data();
    for (int local = 0; local != perProcess; ++local) {
      const int rank = control.firstRank() + local;
      forEachShare(slabs[from], rank, kAnyReplica, [&](const Share &share) {
        keepFirst(failure, write(share, rank, [&](const ShardRun &run) {
                    const float *elements = next;
                    next += run.count;
                    return elements;
                  }));
      });
    }
  }
  return failure;
}
