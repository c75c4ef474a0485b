//===- SharedGpu.h - Ranks of one process on one GPU ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that share a GPU put a collective on their queues together: all members
// come to a meeting, where the first does the work on the devices of all, while
// their threads wait. What is put on queues is ordered by events alone, so
// nobody waits for the GPU.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPU_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPU_H

#include "optimus-runtime/Device.h"
#include "optimus-runtime/Status.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace optrt {

/// Where some ranks meet, again and again.
struct Meeting {
  explicit Meeting(std::vector<int> ranks)
      : ranks(std::move(ranks)), isPresent(this->ranks.size()) {}

  const std::vector<int> ranks;
  // Under the mutex of the SharedGpu.
  std::vector<bool> isPresent;
  uint64_t number = 0; ///< how often they have met
  Status outcome;      ///< of the latest
};

/// The state shared by the ranks of this process on one GPU.
class SharedGpu {
public:
  explicit SharedGpu(int numRanks);

  /// Comes to a meeting as its member `index`. When all are there, the first
  /// works for all, on its thread, and all have its outcome. Fails once
  /// abort() was called.
  Status meet(Meeting &meeting, int index, const std::function<Status()> &work);
  /// Whether some of these have not come to where all meet.
  bool isAnyAbsent(std::span<const int> ranks);
  /// Ends all meetings, now and later.
  void abort();

  /// From the end of a meeting in which this was called on, one rank goes on at
  /// a time, until it comes to a meeting: graphs that are captured are not for
  /// several threads at once. One that fails does not let the others go on.
  void takeTurns(bool areTaken);

  /// What a rank brings to where all meet; its own until then.
  struct Member {
    Device *device = nullptr;
    bool records = false;
    uint32_t recording = 0;
  };
  std::vector<Member> members;
  std::span<Member> others() { return std::span(members).subspan(1); }
  Meeting all;
  bool doAllRecord = false; ///< what they agreed on last

private:
  static constexpr int kNobody = -1;

  std::mutex mutex;
  std::condition_variable changed;
  bool isAborted = false, areTurns = false;
  int turn = kNobody; ///< the rank that goes on
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_SHAREDGPU_H
