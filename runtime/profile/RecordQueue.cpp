//===- RecordQueue.cpp - Records on their way to the file -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordQueue.h"

#include <utility>

namespace optrt {

RecordQueue::Record RecordQueue::take() {
  std::lock_guard lock(mutex);
  if (free.empty())
    return std::make_unique<CallRecord>();
  Record record = std::move(free.back());
  free.pop_back();
  return record;
}

void RecordQueue::put(Record record) {
  const std::size_t bytes = record ? record->bytes() : 0;
  std::unique_lock lock(mutex);
  hasRoom.wait(lock, [&] {
    return closed || waitingBytes == 0 || waitingBytes + bytes <= most;
  });
  if (closed)
    return;
  waitingBytes += bytes;
  // To wake a thread takes longer than to record dozens of commands, so that it
  // sleeps until the step has ended or much waits.
  const bool isUrgent = !record || waitingBytes >= most / 2;
  waiting.push_back(std::move(record));
  if (isUrgent)
    hasRecord.notify_one();
}

void RecordQueue::close() {
  std::lock_guard lock(mutex);
  closed = true;
  hasRoom.notify_all();
  hasRecord.notify_all();
}

bool RecordQueue::get(Record &record) {
  std::unique_lock lock(mutex);
  hasRecord.wait(lock, [&] { return closed || !waiting.empty(); });
  if (waiting.empty())
    return false;
  record = std::move(waiting.front());
  waiting.pop_front();
  return true;
}

void RecordQueue::giveBack(Record record) {
  if (!record)
    return;
  std::lock_guard lock(mutex);
  waitingBytes -= record->bytes();
  free.push_back(std::move(record));
  hasRoom.notify_all();
}

} // namespace optrt
