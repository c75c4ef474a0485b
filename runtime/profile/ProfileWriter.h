//===- ProfileWriter.h - The tables of a profile ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_PROFILEWRITER_H
#define OPTIMUS_RUNTIME_PROFILE_PROFILEWRITER_H

#include "CallRecord.h"
#include "Database.h"
#include "JsonRows.h"
#include "ProgramRows.h"
#include "optimus-runtime/Profile.h"

namespace optrt {

/// Fills the database of docs/profile.md. One thread at a time.
class ProfileWriter {
public:
  /// `origin` is when time begins, in steadyNanoseconds().
  explicit ProfileWriter(int64_t origin) : origin(origin) {}

  /// Makes the tables in an empty file.
  Status open(const std::string &path);
  Status describe(const Profiled &profiled, const Profile::Trace &trace);

  /// A call of the step that is under way.
  Status write(const CallRecord &record);
  /// Makes the step last.
  Status endStep();
  /// Removes the records of a step that has not ended.
  Status dropStep();

  /// Notes how the run ended, and closes the file.
  Status finish(const std::string &ending);

private:
  Status prepare();
  Status writeSpans(int64_t call, const CallRecord &record);

  const int64_t origin;
  Database database;
  ProgramRows programs;
  Insertion calls, spans, allocations;
  JsonRows commands, transfers;
  int64_t nextCall = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_PROFILEWRITER_H
