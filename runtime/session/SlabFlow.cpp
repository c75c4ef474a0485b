//===- SlabFlow.cpp - Slabs that all processes fill -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlabFlow.h"

#include "ccl/tcp/TcpControl.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace optrt;

/// As many slabs as a process may be ahead of one that takes its own.
static constexpr std::size_t kDepth = 2;

// Futexes in shared memory; those of std::atomic are for threads.

static void waitWhile(std::atomic<uint32_t> &word, uint32_t value,
                      const timespec &atMost) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &atMost, nullptr, 0);
}

static void wake(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

std::size_t SlabFlow::headerBytes(std::size_t processes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes = sizeof(Header) + processes * sizeof(Served);
  return (bytes + kPage - 1) / kPage * kPage;
}

std::vector<std::size_t> SlabFlow::regionBytes(const CheckpointPieces &pieces,
                                               std::span<const PieceList> lists,
                                               Keeps keeps) {
  std::vector<std::size_t> bytes;
  for (const PieceList &list : lists) {
    std::size_t elements = numElements(pieces, list);
    if (keeps == Keeps::SomeSlabs && elements > 0)
      elements = kDepth * std::size_t(kSlabElements);
    bytes.push_back(headerBytes(lists.size()) + elements * sizeof(float));
  }
  return bytes;
}

SlabFlow::SlabFlow(ShardExchange &exchange, const PieceSlabs &slabs,
                   const std::vector<PieceList> &lists, SharedRegions &regions,
                   Keeps keeps)
    : exchange(exchange), regions(regions), keepsAll(keeps == Keeps::All),
      processes(exchange.numProcesses()), here(exchange.process()),
      rounds(slabs, lists), offsets(lists.size()) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free &&
                    std::atomic<uint64_t>::is_always_lock_free,
                "processes share them");
}

SlabFlow::Header &SlabFlow::header(int process) {
  return *reinterpret_cast<Header *>(regions.of(process).data());
}

SlabFlow::Served &SlabFlow::served(int process, int by) {
  return reinterpret_cast<Served *>(&header(process) + 1)[by];
}

std::span<float> SlabFlow::kept() {
  std::span<std::byte> all =
      regions.of(here).subspan(headerBytes(std::size_t(processes)));
  return {reinterpret_cast<float *>(all.data()), all.size() / sizeof(float)};
}

std::span<float> SlabFlow::slabOf(int process) {
  const std::size_t count = rounds.countOf(process);
  if (count == 0)
    return {};
  std::byte *begin =
      regions.of(process).data() + headerBytes(std::size_t(processes));
  return {reinterpret_cast<float *>(begin) +
              (keepsAll ? offsets[process]
                        : round % kDepth * std::size_t(kSlabElements)),
          count};
}

bool SlabFlow::advance(Status &failure) {
  for (; shift != processes; ++shift) {
    const int to = (here + shift) % processes;
    if (!regions.areShared(here, to) || rounds.countOf(to) == 0)
      continue;
    if (!keepsAll &&
        round >= header(to).taken.load(std::memory_order_acquire) + kDepth)
      return false;
    keepFirst(failure, exchange.give(rounds.slabs()[to], to, slabOf(to)));
    served(to, here).count.store(round + 1, std::memory_order_release);
    ring(to);
    ++shift;
    return true;
  }
  const bool takes = !keepsAll && rounds.countOf(here) > 0;
  if (takes && own.size() == kDepth)
    return false;
  keepFirst(failure, exchange.collect(rounds.slabs(), slabOf(here),
                                      [&](int from, int to) {
                                        return regions.areShared(from, to);
                                      }));
  if (takes)
    own.push_back({rounds.pieceOf(here), rounds.countOf(here)});
  for (int process = 0; process != processes; ++process)
    offsets[process] += rounds.countOf(process);
  rounds.advance();
  ++round;
  shift = 1;
  return true;
}

bool SlabFlow::isFilled() {
  for (int process = 0; process != processes; ++process)
    if (process != here && regions.areShared(here, process) &&
        served(here, process).count.load(std::memory_order_acquire) <= taken)
      return false;
  return true;
}

void SlabFlow::ring(int process) {
  header(process).bell.fetch_add(1);
  if (header(process).sleeps.exchange(0) != 0)
    wake(header(process).bell);
}

Status SlabFlow::sleep(uint32_t bell) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(100);
  constexpr timespec kAtMost{0, std::chrono::nanoseconds(kLook).count()};
  const Clock::time_point began = Clock::now();
  waitWhile(header(here).bell, bell, kAtMost);
  if (Clock::now() - began < kLook)
    return okStatus();
  for (int process = 0; process != processes; ++process)
    if (process != here && regions.areShared(here, process) &&
        !regions.isAlive(process)) {
      // Whoever watches the ranks knows better who died.
      std::this_thread::sleep_for(std::chrono::duration<double>(kLostSeconds));
      return unavailable(concat("the process of rank ", process,
                                " ended before the others were done with it"));
    }
  return okStatus();
}

Status SlabFlow::run(const Take &take) {
  // All of the few pages at once; faults of one at a time cost more.
  if (!keepsAll)
    for (int process = 0; process != processes; ++process)
      if (std::span<std::byte> memory = regions.of(process); !memory.empty())
        madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE);
  Status failure;
  bool looksAgain = false;
  uint32_t bell = 0;
  while (!rounds.done() || !own.empty()) {
    if (!own.empty() && isFilled()) {
      const std::span<const float> all = kept();
      if (failure.ok())
        failure = take(own.front().piece,
                       all.subspan(taken % kDepth * std::size_t(kSlabElements),
                                   own.front().count));
      own.pop_front();
      header(here).taken.store(++taken, std::memory_order_release);
      for (int process = 0; process != processes; ++process)
        if (process != here && regions.areShared(here, process))
          ring(process);
    } else if (rounds.done() || !advance(failure)) {
      if (looksAgain) {
        OPTRT_RETURN_IF_ERROR(sleep(bell));
        looksAgain = false;
        continue;
      }
      // What rings from now on wakes it; what has rung shows in one more look.
      header(here).sleeps.store(1);
      bell = header(here).bell.load();
      looksAgain = true;
      continue;
    }
    looksAgain = false;
  }
  header(here).sleeps.store(0);
  return failure;
}
