//===- WritingPace.h - When threads write beside steps ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_WRITINGPACE_H
#define OPTIMUS_RUNTIME_SESSION_WRITINGPACE_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace optrt {

/// Lets writing threads work between steps for a while, on cores that ranks
/// would use. Beside a step each would hold up its rank at another moment, and
/// all ranks wait for each of these.
class WritingPace {
public:
  using Duration = std::chrono::nanoseconds;

  /// For so many threads, which may work once they are given time, or `always`.
  WritingPace(std::size_t threads, bool always)
      : numActive(threads), isUnlimited(always) {}

  /// One a thread: how long it may work.
  class Turn {
  public:
    explicit Turn(WritingPace &pace) : pace(pace) {}
    ~Turn();
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

    /// Waits until the thread may work on. Called between pieces of work, of
    /// which the last may take longer than it has time.
    void wait();

  private:
    WritingPace &pace;
    uint64_t seen = 0; ///< times that were given
    Duration end{};    ///< of the thread's work
  };

  /// Gives each thread so much time of a core, and waits until all have had it,
  /// but no longer than it takes: who waits for a disk goes on beside the step.
  /// Threads that may always work are not waited for.
  void give(Duration time);
  /// From now on all may work: somebody waits for what they write.
  void hurry();

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t numActive;
  std::size_t numWaiting = 0; ///< of these, since time was given last
  uint64_t given = 0;         ///< times
  Duration time{};            ///< that was given last
  bool isUnlimited;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_WRITINGPACE_H
