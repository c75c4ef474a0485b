//===- RecordQueue.h - Records on their way to the file ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_RECORDQUEUE_H
#define OPTIMUS_RUNTIME_PROFILE_RECORDQUEUE_H

#include "CallRecord.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace optrt {

/// Hands records from ranks to the thread that writes them, and back to be
/// filled again. At most `bytes` wait, or one record: the producer of another
/// one waits, too, so that memory stays bounded however long a run takes.
class RecordQueue {
public:
  using Record = std::unique_ptr<CallRecord>;

  explicit RecordQueue(std::size_t bytes) : most(bytes) {}

  /// A record to be filled.
  Record take();
  /// Hands over a record, or the end of a step as null.
  void put(Record record);
  /// Nothing more is put; what is, is dropped.
  void close();

  /// The next one into `record`; false when all were got and it is closed.
  bool get(Record &record);
  /// A record that was written.
  void giveBack(Record record);

private:
  const std::size_t most;
  std::mutex mutex;
  std::condition_variable hasRoom, hasRecord;
  std::deque<Record> waiting;
  std::size_t waitingBytes = 0;
  std::vector<Record> free;
  bool closed = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_RECORDQUEUE_H
