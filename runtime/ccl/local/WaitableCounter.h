//===- WaitableCounter.h - A counter that threads wait on -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_WAITABLECOUNTER_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_WAITABLECOUNTER_H

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace optrt {

inline void relaxProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// A counter that threads wait on. It wraps around; bit 0 is set when the job
/// is aborted, so that setting it wakes every waiter.
class WaitableCounter {
public:
  /// Adds one and wakes the waiters.
  void increment() {
    value.fetch_add(2, std::memory_order_acq_rel);
    value.notify_all();
  }

  bool hasReached(uint32_t target) const {
    return reached(value.load(std::memory_order_acquire), target);
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

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_WAITABLECOUNTER_H
