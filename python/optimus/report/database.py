# ===- database.py - SQLite files as arrays -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""SQLite files, and tables of numbers in them as arrays."""

import itertools
import json
import os
import sqlite3
import stat
import struct
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from optimus.report import ReportError

ROWS_AT_A_TIME = 50_000
HEADER_BYTES = 100  # of an SQLite file


class Stream:
    """The rows of each call in a table, in the order of the file, of which no more is
    in memory than a call and some."""

    def __init__(
        self, connection: sqlite3.Connection, path: str, query: str, width: int
    ):
        """`query` selects `width` whole numbers, first the call, and ends with the
        table."""
        self._path = path
        self._table = query.split()[-1]
        cursor = connection.execute(query + " ORDER BY rowid")
        self._items = self._grouped(cursor, width)
        self._waiting: Optional[Tuple[int, np.ndarray]] = None

    def until(self, call: int) -> Optional[np.ndarray]:
        """The rows of `call`, if it has any; those of earlier calls are dropped."""
        while True:
            item = self._waiting or next(self._items, None)
            self._waiting = item if item is not None and item[0] > call else None
            if item is None or item[0] > call:
                return None
            if item[0] == call:
                return item[1]

    def _grouped(self, cursor, width: int) -> Iterator[Tuple[int, np.ndarray]]:
        rest = np.empty((0, width), np.int64)
        done = set()
        while True:
            rows = cursor.fetchmany(ROWS_AT_A_TIME)
            chunk = np.concatenate([rest, matrix(rows, width)])
            edges = np.flatnonzero(np.diff(chunk[:, 0])) + 1
            parts = np.split(chunk, edges) if len(chunk) else []
            # The last call may go on in the next rows.
            rest = parts.pop() if rows and parts else rest[:0]
            for part in parts:
                call = int(part[0, 0])
                if call in done:
                    raise ReportError(
                        "%s is not consistent: expected the rows of call %d together "
                        "in table '%s', found them in two places"
                        % (self._path, call, self._table)
                    )
                done.add(call)
                yield call, part
            if not rows:
                return


def matrix(rows: Sequence[tuple], width: int) -> np.ndarray:
    """Rows of whole numbers as an array; NULL is -1."""
    numbers = itertools.chain.from_iterable(rows)
    try:
        flat = np.fromiter(numbers, np.int64, len(rows) * width)
    except TypeError:
        flat = np.array(
            [[-1 if x is None else x for x in row] for row in rows], np.int64
        )
    return flat.reshape(-1, width)


def column(rows: Sequence[tuple], at: int) -> np.ndarray:
    """A column of whole numbers; NULL is -1."""
    numbers = (-1 if row[at] is None else row[at] for row in rows)
    return np.fromiter(numbers, np.int64, len(rows))


def json_rows(text: Optional[str], width: int) -> np.ndarray:
    """Rows of whole numbers as they lie in a text; none where it is NULL."""
    return np.array(json.loads(text or "[]"), np.int64).reshape(-1, width)


def open_database(path: str) -> sqlite3.Connection:
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise ValueError("it is not a regular file, and may never end")
        with open(path, "rb") as file:
            start = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ReportError("cannot read '%s': %s" % (path, why)) from None
    if not start.startswith(b"SQLite format 3\0"):
        raise ReportError(
            "'%s' is no profile: expected an SQLite database, found %s; profiles are "
            "written by `optimus-run train --profile FILE`"
            % (path, "an empty file" if not start else "another format")
        )
    _check_size(path, start, size)
    name = "file:%s?mode=ro" % _quoted(os.path.abspath(path))
    connection = sqlite3.connect(name, uri=True)
    _defend(connection)
    return connection


def _defend(connection: sqlite3.Connection) -> None:
    """The file may be made to harm: its SQL (views, triggers, defaults) runs in this
    process, and its pages may be anything. What SQLite's documentation recommends for
    such files, as far as this version of Python can say it."""
    for setting in ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1"):
        connection.execute("PRAGMA " + setting)
    # A mapped file that is cut short is a bus error.
    connection.execute("PRAGMA mmap_size = 0")
    if hasattr(connection, "setlimit"):  # from 3.11
        for limit, most in _LIMITS.items():
            connection.setlimit(getattr(sqlite3, limit), most)
    if hasattr(connection, "setconfig"):  # from 3.12
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
    connection.set_authorizer(_authorize)


_LIMITS = {
    "SQLITE_LIMIT_SQL_LENGTH": 100_000,
    "SQLITE_LIMIT_LENGTH": 1 << 28,
    "SQLITE_LIMIT_COLUMN": 100,
    "SQLITE_LIMIT_EXPR_DEPTH": 20,
    "SQLITE_LIMIT_COMPOUND_SELECT": 3,
    "SQLITE_LIMIT_VDBE_OP": 25_000,
    "SQLITE_LIMIT_FUNCTION_ARG": 8,
    "SQLITE_LIMIT_ATTACHED": 0,
    "SQLITE_LIMIT_VARIABLE_NUMBER": 10,
    "SQLITE_LIMIT_TRIGGER_DEPTH": 1,
}


def _authorize(action: int, *_) -> int:
    """Whether SQL, of ours or of the file's, may do something: ours reads tables, and
    calls no function."""
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def check_whole(connection: sqlite3.Connection) -> None:
    """Reads all pages once; raises sqlite3.DatabaseError if one is damaged."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _check_size(path: str, start: bytes, size: int) -> None:
    """SQLite itself does not look at pages that are missing until it needs them."""
    if len(start) == HEADER_BYTES:
        page, pages = struct.unpack_from(">H10xI", start, 16)
        # 65536 does not fit.
        expected = (65536 if page == 1 else page) * pages
        if size >= expected:
            return
        why = "expected %d bytes, found %d" % (expected, size)
    else:
        why = "it has %d bytes" % size
    raise damaged(path, why)


def _quoted(path: str) -> str:
    """A path inside an URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def damaged(path: str, error: object) -> ReportError:
    return ReportError(
        "'%s' is a damaged profile: %s; it was cut short or changed after it was "
        "written, so take another copy or profile again" % (path, error)
    )
