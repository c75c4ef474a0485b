//===- ProfileWriter.cpp - The tables of a profile ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProfileWriter.h"

#include <nlohmann/json.hpp>
#include <tuple>

namespace optrt {

/// As docs/profile.md describes them; "OPTF".
static constexpr const char *kTables = R"(
PRAGMA application_id = 0x4F505446;
PRAGMA user_version = 2;
BEGIN;
CREATE TABLE trace(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE ranks(rank INTEGER PRIMARY KEY, coordinates TEXT);
CREATE TABLE functions(function INTEGER PRIMARY KEY, name TEXT,
  arena_bytes INTEGER);
CREATE TABLE queues(function INTEGER, queue INTEGER, kind TEXT, axes TEXT,
  PRIMARY KEY(function, queue)) WITHOUT ROWID;
CREATE TABLE commands(function INTEGER, command INTEGER, kind TEXT, name TEXT,
  queue INTEGER, path TEXT, source TEXT, flops INTEGER, bytes INTEGER,
  waits_for INTEGER, PRIMARY KEY(function, command)) WITHOUT ROWID;
CREATE TABLE blocks(block INTEGER PRIMARY KEY, function INTEGER, space TEXT,
  name TEXT, address INTEGER, bytes INTEGER, category TEXT, path TEXT,
  source TEXT, first INTEGER, last INTEGER);
CREATE TABLE accesses(function INTEGER, command INTEGER, operand INTEGER,
  block INTEGER, access INTEGER, bytes INTEGER,
  PRIMARY KEY(function, command, operand)) WITHOUT ROWID;
CREATE TABLE calls(call INTEGER PRIMARY KEY, rank INTEGER, step INTEGER,
  function INTEGER, begin INTEGER, end INTEGER);
CREATE TABLE spans(call INTEGER PRIMARY KEY, commands TEXT, transfers TEXT);
CREATE TABLE allocations(call INTEGER, block INTEGER, address INTEGER,
  malloc_begin INTEGER, malloc_end INTEGER, free_begin INTEGER,
  free_end INTEGER);
CREATE VIEW times(call, command, begin, end) AS
  SELECT call, key, begin + (value ->> 0), begin + (value ->> 1)
  FROM spans JOIN calls USING (call), json_each(spans.commands);
CREATE VIEW transfers(call, command, begin, end) AS
  SELECT call, value ->> 0, begin + (value ->> 1), begin + (value ->> 2)
  FROM spans JOIN calls USING (call), json_each(spans.transfers);
)";

Status ProfileWriter::open(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(database, Database::open(path));
  return database.execute(kTables);
}

Status ProfileWriter::prepare() {
  for (auto [insertion, table, columns] : {std::tuple(&calls, "calls", 6),
                                           {&spans, "spans", 3},
                                           {&allocations, "allocations", 7}}) {
    OPTRT_ASSIGN_OR_RETURN(*insertion,
                           Insertion::prepare(database, table, columns));
  }
  return okStatus();
}

Status ProfileWriter::describe(const Profiled &profiled,
                               const Profile::Trace &trace) {
  OPTRT_ASSIGN_OR_RETURN(Insertion entry,
                         Insertion::prepare(database, "trace", 2));
  for (const auto &[key, value] : trace) {
    entry.add(key);
    entry.add(value);
    OPTRT_RETURN_IF_ERROR(entry.insert());
  }
  // Numbers are numbers.
  const std::pair<const char *, int64_t> counts[] = {
      {"ranks", profiled.library.manifest().mesh.numRanks()},
      {"threads_per_rank", profiled.threadsPerRank},
      {"process", profiled.process},
      {"processes", profiled.processes},
      {"origin_unix_ns", profiled.originUnix},
      {"complete", 0}};
  for (auto [key, value] : counts) {
    entry.add(key);
    entry.add(value);
    OPTRT_RETURN_IF_ERROR(entry.insert());
  }
  // Room for how the run ends, for which a full disk has none.
  const std::string room(500, ' ');
  entry.add("ending");
  entry.add(room);
  OPTRT_RETURN_IF_ERROR(entry.insert());

  OPTRT_ASSIGN_OR_RETURN(Insertion rank,
                         Insertion::prepare(database, "ranks", 2));
  const Mesh &mesh = profiled.library.manifest().mesh;
  for (int own : profiled.ranks) {
    nlohmann::ordered_json coordinates = nlohmann::ordered_json::object();
    for (int axis = 0; axis != mesh.numAxes(); ++axis)
      coordinates[mesh.axes()[axis].name] = mesh.coordinate(own, axis);
    const std::string text = coordinates.dump();
    rank.add(own);
    rank.add(text);
    OPTRT_RETURN_IF_ERROR(rank.insert());
  }
  OPTRT_RETURN_IF_ERROR(programs.write(database, profiled));
  OPTRT_RETURN_IF_ERROR(database.execute("COMMIT"));
  return prepare();
}

/// From the call's begin on, which takes fewer digits.
Status ProfileWriter::writeSpans(int64_t call, const CallRecord &record) {
  const int64_t from = record.times.begin;
  commands.clear();
  for (const CommandTimes &one : record.commands)
    commands.add(one.begin - from, one.end - from);
  transfers.clear();
  for (const CallRecord::Transfer &one : record.transfers)
    transfers.add(one.command, one.times.begin - from, one.times.end - from);
  spans.add(call);
  spans.add(commands.get());
  spans.add(transfers.get());
  return spans.insert();
}

Status ProfileWriter::write(const CallRecord &record) {
  if (!database.isInTransaction())
    OPTRT_RETURN_IF_ERROR(database.execute("BEGIN"));
  const int64_t call = nextCall++;
  auto add = [&](Insertion &rows, const CommandTimes &one) {
    rows.add(one.begin - origin);
    rows.add(one.end - origin);
  };
  calls.add(call);
  calls.add(record.rank);
  calls.add(record.step);
  calls.add(programs.functionOf(record.rank, record.call));
  add(calls, record.times);
  OPTRT_RETURN_IF_ERROR(calls.insert());
  OPTRT_RETURN_IF_ERROR(writeSpans(call, record));
  for (const CallRecord::Allocation &one : record.allocations) {
    allocations.add(call);
    allocations.add(programs.blockOf(record.rank, record.call, one.buffer));
    allocations.add(
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(one.address)));
    add(allocations, one.allocated);
    add(allocations, one.freed);
    OPTRT_RETURN_IF_ERROR(allocations.insert());
  }
  return okStatus();
}

Status ProfileWriter::endStep() {
  return database.isInTransaction() ? database.execute("COMMIT") : okStatus();
}

Status ProfileWriter::dropStep() {
  return database.isInTransaction() ? database.execute("ROLLBACK") : okStatus();
}

Status ProfileWriter::finish(const std::string &ending) {
  for (Insertion *insertion : {&calls, &spans, &allocations})
    *insertion = Insertion();
  {
    // In the place of the former row, so that the file need not grow.
    OPTRT_ASSIGN_OR_RETURN(Insertion entry,
                           Insertion::prepare(database, "trace", 2, /*rows=*/2,
                                              /*replaces=*/true));
    entry.add("complete");
    entry.add(int64_t{1});
    entry.add("ending");
    entry.add(std::string_view(ending).substr(0, 500));
    OPTRT_RETURN_IF_ERROR(entry.insert());
  }
  return database.close();
}

} // namespace optrt
