//===- RankRecorder.h - What a rank's commands take -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_RANKRECORDER_H
#define OPTIMUS_RUNTIME_PROFILE_RANKRECORDER_H

#include "RecordQueue.h"
#include "optimus-runtime/Rank.h"

#include <atomic>

namespace optrt {

/// Notes when the commands of one rank ran, by its device's clock, and hands
/// each call to the queue.
class RankRecorder final : public CommandObserver {
public:
  /// `step` is the one that is recorded, or 0. All must outlive it.
  RankRecorder(const Rank &rank, RecordQueue &queue,
               const std::atomic<int64_t> &step)
      : rank(rank.rank), device(*rank.device), queue(queue), step(step) {}

  bool beginCall(std::size_t call) override;
  void endCall() override;
  void begin(const BoundProgram &program, Site site) override;
  void end(const BoundProgram &program, Site site) override;
  void transferred(uint32_t started, Clock::time_point begin,
                   Clock::time_point end) override;
  void allocated(uint32_t buffer, const void *address,
                 CommandTimes times) override;
  void freed(uint32_t buffer, CommandTimes times) override;

private:
  const int rank;
  Device &device;
  RecordQueue &queue;
  const std::atomic<int64_t> &step;
  RecordQueue::Record record;
  /// Where the allocation of each buffer stands among the record's.
  std::vector<std::size_t> allocations;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_RANKRECORDER_H
