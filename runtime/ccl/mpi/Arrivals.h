//===- Arrivals.h - Sleeps until something may have arrived -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI has no call that sleeps until a request is complete: its waits look all
// the time, and so do those who test. Where it moves data over sockets it asks
// the kernel about them through an epoll descriptor, and that can be polled
// like any other: it is readable when one of the sockets is. So a waiting rank
// sleeps until data is there and leaves its core to the computing ones.
//
// The process may have several epoll descriptors, none of them marked as MPI's,
// or no descriptor at all (network cards not asked through the kernel). So a
// sleep has a time limit, and gets a long one only where data was seen to end
// it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_ARRIVALS_H
#define OPTIMUS_RUNTIME_CCL_MPI_ARRIVALS_H

#include <atomic>
#include <chrono>
#include <poll.h>
#include <vector>

namespace optrt {

class Arrivals {
public:
  /// Finds what can be polled, once MPI was started. If not `polls`, nothing:
  /// shared memory changes without a word to the kernel.
  explicit Arrivals(bool polls);

  /// Sleeps until data may have arrived, at most `limit`. Whether it was woken
  /// before that.
  bool sleep(std::chrono::microseconds limit) const;

  /// Whether the last completion had woken its sleeper.
  bool isReliable() const { return reliable.load(std::memory_order_relaxed); }
  void setReliable(bool value) {
    reliable.store(value, std::memory_order_relaxed);
  }

private:
  std::vector<pollfd> descriptors;
  std::atomic<bool> reliable{false};
};

/// One thread's looks for data and the sleeps between them, which get longer
/// while nothing happens.
class Backoff {
public:
  /// It looks `looks` times before the first sleep, where nothing is known to
  /// wake it from one, and sleeps at most `longest`.
  Backoff(Arrivals &arrivals, int looks, std::chrono::microseconds longest);

  /// After a look that found nothing.
  void pause();

  /// After a look that found something.
  void moved();

private:
  Arrivals &arrivals;
  const std::chrono::microseconds longest;
  std::chrono::microseconds next;
  int looks;
  bool slept = false, woken = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_ARRIVALS_H
