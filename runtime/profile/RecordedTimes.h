//===- RecordedTimes.h - Times as a table of a database ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_RECORDEDTIMES_H
#define OPTIMUS_RUNTIME_PROFILE_RECORDEDTIMES_H

#include "CallRecord.h"
#include "Database.h"

#include <span>

namespace optrt {

/// What a call recorded, as the table recorded(command, begin, end) of a
/// database: one statement copies it, in half the time that it takes to bind
/// each value. It must stay where it is while the database is open.
class RecordedTimes {
public:
  /// Times are written from `origin` on.
  explicit RecordedTimes(int64_t origin) : origin(origin) {}
  RecordedTimes(const RecordedTimes &) = delete;
  RecordedTimes &operator=(const RecordedTimes &) = delete;

  Status attach(Database &database);
  /// What the table has from now on, by number of the command.
  void show(std::span<const CommandTimes> times) { rows = times; }

private:
  friend struct RecordedTimesTable;
  const int64_t origin;
  std::span<const CommandTimes> rows;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_RECORDEDTIMES_H
