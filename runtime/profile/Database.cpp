//===- Database.cpp - A database in one file ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Database.h"

#include <cerrno>
#include <cstring>
#include <sqlite3.h>

namespace optrt {

StatusOr<Database> Database::open(const std::string &path) {
  Database database;
  // Without locks: the file is ours, and some file systems have none. One
  // thread at a time writes, which need not lock the library for each value
  // either.
  if (sqlite3_open_v2(path.c_str(), &database.handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      "unix-none") != SQLITE_OK)
    return database.handle ? database.failure()
                           : unavailable("no memory for a database");
  // What is rolled back is few pages, since rows are added at the end. Of a
  // file that is still a temporary one nothing is lost by a crash. Nobody else
  // writes to it, so no step need look for changes.
  OPTRT_RETURN_IF_ERROR(database.execute("PRAGMA locking_mode = EXCLUSIVE;"
                                         "PRAGMA journal_mode = MEMORY;"
                                         "PRAGMA synchronous = OFF;"
                                         "PRAGMA temp_store = MEMORY"));
  return database;
}

Status Database::failure() const {
  const int code = sqlite3_errcode(handle) & 0xff;
  int error = code == SQLITE_CANTOPEN ? sqlite3_system_errno(handle) : 0;
  if (code == SQLITE_IOERR)
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  // A limit on files' sizes, or on a user's, is a disk for that user.
  if (code == SQLITE_FULL || error == ENOSPC || error == EFBIG ||
      error == EDQUOT)
    return unavailable(
        concat("disk full", error ? ": " : "", error ? strerror(error) : ""));
  return unavailable(concat(sqlite3_errmsg(handle), error ? ": " : "",
                            error ? strerror(error) : ""));
}

Status Database::close() {
  if (!handle)
    return okStatus();
  if (sqlite3_close(handle) != SQLITE_OK)
    return failure();
  handle = nullptr;
  return okStatus();
}

Status Database::execute(const char *sql) {
  return sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? okStatus()
             : failure();
}

bool Database::isInTransaction() const {
  return handle && sqlite3_get_autocommit(handle) == 0;
}

StatusOr<Insertion> Insertion::prepare(Database &database,
                                       std::string_view table, int columns,
                                       int rows, bool replaces) {
  std::string row = "(?";
  for (int i = 1; i < columns; ++i)
    row += ",?";
  row += ")";
  std::string sql = concat("INSERT ", replaces ? "OR REPLACE " : "", "INTO ",
                           table, " VALUES ", row);
  for (int i = 1; i < rows; ++i)
    sql += "," + row;
  Insertion insertion;
  insertion.database = &database;
  if (sqlite3_prepare_v3(database.handle, sql.c_str(), -1,
                         SQLITE_PREPARE_PERSISTENT, &insertion.statement,
                         nullptr) != SQLITE_OK)
    return database.failure();
  return insertion;
}

Insertion::~Insertion() { sqlite3_finalize(statement); }

void Insertion::add(int64_t value) {
  sqlite3_bind_int64(statement, ++column, value);
}

void Insertion::add(std::string_view text) {
  if (text.empty())
    return addNull();
  sqlite3_bind_text(statement, ++column, text.data(),
                    static_cast<int>(text.size()), SQLITE_STATIC);
}

Status Insertion::insert() {
  const bool done = sqlite3_step(statement) == SQLITE_DONE;
  Status status = done ? okStatus() : database->failure();
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  column = 0;
  return status;
}

} // namespace optrt
