//===- Database.h - A database in one file ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_DATABASE_H
#define OPTIMUS_RUNTIME_PROFILE_DATABASE_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace optrt {

/// An SQLite database that one thread at a time writes.
///
/// Errors: Unavailable, as the system refuses ("disk I/O error: No space left
/// on device").
class Database {
public:
  Database() = default;
  Database(Database &&other) noexcept { std::swap(handle, other.handle); }
  Database &operator=(Database &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Database() { (void)close(); }

  /// Opens a file that is there, empty or a database. Nobody else may use it:
  /// it is not locked, and not synced before it is closed.
  static StatusOr<Database> open(const std::string &path);
  /// All statements must be gone.
  Status close();

  /// Runs statements that return nothing.
  Status execute(const char *sql);

  /// Whether a transaction is open: a failure may have rolled it back.
  bool isInTransaction() const;

private:
  friend class Insertion;
  Status failure() const;

  sqlite3 *handle = nullptr;
};

/// Inserts rows into a table.
class Insertion {
public:
  Insertion() = default;
  Insertion(Insertion &&other) noexcept { swap(other); }
  Insertion &operator=(Insertion &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Insertion();

  /// Of rows with so many columns, `rows` at a time, which may replace those
  /// with the same key. The database must outlive it.
  static StatusOr<Insertion> prepare(Database &database, std::string_view table,
                                     int columns, int rows = 1,
                                     bool replaces = false);

  /// The next column. Text must stay until insert().
  void add(int64_t value);
  void add(std::string_view text);
  void addNull() { ++column; }
  /// Null for nothing and for empty text.
  template <typename T>
  void add(const std::optional<T> &value) {
    value ? add(*value) : addNull();
  }
  /// When all columns of its rows have been added.
  Status insert();

private:
  void swap(Insertion &other) {
    std::swap(database, other.database);
    std::swap(statement, other.statement);
    std::swap(column, other.column);
  }

  Database *database = nullptr;
  sqlite3_stmt *statement = nullptr;
  int column = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_DATABASE_H
