//===- RankRecorder.cpp - What a rank's commands take ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankRecorder.h"

#include "program/BoundProgram.h"

namespace optrt {

bool RankRecorder::beginCall(std::size_t call) {
  const int64_t now = step.load(std::memory_order_acquire);
  if (now == 0)
    return false;
  // The record of a failed call is used again.
  if (!record)
    record = queue.take();
  record->rank = rank;
  record->call = call;
  record->step = now;
  record->commands.clear();
  record->transfers.clear();
  record->allocations.clear();
  record->times.begin = steadyNanoseconds();
  return true;
}

void RankRecorder::endCall() {
  record->times.end = steadyNanoseconds();
  queue.put(std::move(record));
}

void RankRecorder::begin(const BoundProgram &program, Site site) {
  // Queues write into it later, so that it must not grow.
  if (record->commands.empty())
    record->commands.resize(program.function().commands.size());
  // A queue that has failed says so with the command itself.
  (void)device.timestamp(site.queue, record->commands[site.number].begin);
}

void RankRecorder::end(const BoundProgram &, Site site) {
  (void)device.timestamp(site.queue, record->commands[site.number].end);
}

static int64_t nanoseconds(CommandObserver::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             time.time_since_epoch())
      .count();
}

void RankRecorder::transferred(uint32_t started, Clock::time_point begin,
                               Clock::time_point end) {
  record->transfers.push_back(
      {started, {nanoseconds(begin), nanoseconds(end)}});
}

void RankRecorder::allocated(uint32_t buffer, const void *address,
                             CommandTimes times) {
  if (buffer >= allocations.size())
    allocations.resize(buffer + 1);
  allocations[buffer] = record->allocations.size();
  record->allocations.push_back({buffer, address, times, {}});
}

void RankRecorder::freed(uint32_t buffer, CommandTimes times) {
  record->allocations[allocations[buffer]].freed = times;
}

} // namespace optrt
