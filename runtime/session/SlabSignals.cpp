//===- SlabSignals.cpp - What processes say of their slabs ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlabSignals.h"

#include "ccl/tcp/TcpControl.h"

#include <chrono>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace optrt;

// Futexes in shared memory; those of std::atomic are for threads.

static void waitWhile(std::atomic<uint32_t> &word, uint32_t value,
                      const timespec &atMost) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &atMost, nullptr, 0);
}

static void wake(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
                  std::atomic<uint64_t>::is_always_lock_free,
              "processes share them");

std::size_t SlabSignals::bytes(std::size_t processes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes = sizeof(Header) + processes * sizeof(DoneBy);
  return (bytes + kPage - 1) / kPage * kPage;
}

SlabSignals::Header &SlabSignals::header(int process) {
  return *reinterpret_cast<Header *>(regions.of(process).data());
}

std::atomic<uint64_t> &SlabSignals::doneBy(int process, int other) {
  return reinterpret_cast<DoneBy *>(&header(process) + 1)[other].count;
}

std::span<float> SlabSignals::elements(int process) const {
  const std::span<std::byte> all =
      regions.of(process).subspan(bytes(std::size_t(processes)));
  return {reinterpret_cast<float *>(all.data()), all.size() / sizeof(float)};
}

void SlabSignals::ring(int process) {
  header(process).bell.fetch_add(1);
  if (header(process).sleeps.exchange(0) != 0)
    wake(header(process).bell);
}

void SlabSignals::ringAll() {
  for (int process = 0; process != processes; ++process)
    if (process != here && areShared(process))
      ring(process);
}

uint32_t SlabSignals::awaitRing() {
  header(here).sleeps.store(1);
  return header(here).bell.load();
}

void SlabSignals::leave() {
  header(here).sleeps.store(0);
  header(here).hasLeft.store(1);
}

Status SlabSignals::sleep(uint32_t bell) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(100);
  constexpr timespec kAtMost{0, std::chrono::nanoseconds(kLook).count()};
  const Clock::time_point began = Clock::now();
  waitWhile(header(here).bell, bell, kAtMost);
  if (Clock::now() - began < kLook)
    return okStatus();
  for (int process = 0; process != processes; ++process)
    if (process != here && areShared(process) && !regions.isAlive(process) &&
        header(process).hasLeft.load() == 0) {
      // Whoever watches the ranks knows better who died.
      std::this_thread::sleep_for(std::chrono::duration<double>(kLostSeconds));
      return unavailable(concat("the process of rank ", process,
                                " ended before the others were done with it"));
    }
  return okStatus();
}
