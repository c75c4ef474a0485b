//===- RecordedTimes.cpp - Times as a table of a database -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordedTimes.h"

#include <new>
#include <sqlite3.h>

namespace optrt {

/// The table as SQLite's modules are written.
struct RecordedTimesTable {
  struct Table : sqlite3_vtab {
    const RecordedTimes *times;
  };
  struct Cursor : sqlite3_vtab_cursor {
    std::size_t row;
  };
  static const RecordedTimes &timesOf(const sqlite3_vtab_cursor *cursor) {
    return *static_cast<const Table *>(cursor->pVtab)->times;
  }
  static std::size_t &rowOf(sqlite3_vtab_cursor *cursor) {
    return static_cast<Cursor *>(cursor)->row;
  }

  static int connect(sqlite3 *database, void *times, int, const char *const *,
                     sqlite3_vtab **table, char **) {
    auto *made = new (std::nothrow) Table{};
    if (!made)
      return SQLITE_NOMEM;
    made->times = static_cast<const RecordedTimes *>(times);
    *table = made;
    return sqlite3_declare_vtab(
        database, "CREATE TABLE recorded(command INTEGER, begin INTEGER, "
                  "end INTEGER)");
  }
  static int disconnect(sqlite3_vtab *table) {
    delete static_cast<Table *>(table);
    return SQLITE_OK;
  }
  /// There is one way to read it, from the first row to the last.
  static int bestIndex(sqlite3_vtab *, sqlite3_index_info *) {
    return SQLITE_OK;
  }
  static int open(sqlite3_vtab *, sqlite3_vtab_cursor **cursor) {
    *cursor = new (std::nothrow) Cursor{};
    return *cursor ? SQLITE_OK : SQLITE_NOMEM;
  }
  static int close(sqlite3_vtab_cursor *cursor) {
    delete static_cast<Cursor *>(cursor);
    return SQLITE_OK;
  }
  static int filter(sqlite3_vtab_cursor *cursor, int, const char *, int,
                    sqlite3_value **) {
    rowOf(cursor) = 0;
    return SQLITE_OK;
  }
  static int next(sqlite3_vtab_cursor *cursor) {
    ++rowOf(cursor);
    return SQLITE_OK;
  }
  static int isAtEnd(sqlite3_vtab_cursor *cursor) {
    return rowOf(cursor) >= timesOf(cursor).rows.size();
  }
  static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *result,
                    int number) {
    const RecordedTimes &times = timesOf(cursor);
    const CommandTimes &row = times.rows[rowOf(cursor)];
    sqlite3_result_int64(result, number == 0   ? int64_t(rowOf(cursor))
                                 : number == 1 ? row.begin - times.origin
                                               : row.end - times.origin);
    return SQLITE_OK;
  }
  static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *number) {
    *number = static_cast<sqlite3_int64>(rowOf(cursor));
    return SQLITE_OK;
  }

  static const sqlite3_module &module() {
    // Without xCreate it is there in every database, and in no file.
    static const sqlite3_module functions = [] {
      sqlite3_module module{};
      module.xConnect = connect;
      module.xDisconnect = disconnect;
      module.xBestIndex = bestIndex;
      module.xOpen = open;
      module.xClose = close;
      module.xFilter = filter;
      module.xNext = next;
      module.xEof = isAtEnd;
      module.xColumn = column;
      module.xRowid = rowid;
      return module;
    }();
    return functions;
  }
};

Status RecordedTimes::attach(Database &database) {
  return database.addModule("recorded", RecordedTimesTable::module(), this);
}

} // namespace optrt
