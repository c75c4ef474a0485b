# ===- profile.py - Profiles as they lie in files -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Opens profiles, checks them, and gives their calls one after another.

What is the same in every call (commands, blocks, accesses) is read at once, into
arrays. What was measured is a stream: at no time is more in memory than a call."""

import json
import sqlite3
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from optimus.report import ReportError
from optimus.report.database import (
    Stream,
    check_whole,
    column,
    damaged,
    json_rows,
    matrix,
    open_database,
)

APPLICATION_ID = 0x4F505446  # "OPTF"
VERSION = 2
NOT_MEASURED = -1

TABLES = "trace ranks functions queues commands blocks accesses calls spans"


class Blocks(NamedTuple):
    """All blocks of a file; a block's index here is what other arrays call it by."""

    function: np.ndarray  # index of a function, or -1: resident
    address: np.ndarray
    bytes: np.ndarray
    category: np.ndarray  # index into `categories`
    first: np.ndarray  # index of a command; -1: resident
    last: np.ndarray
    names: List[str]
    paths: List[str]
    sources: List[str]
    categories: List[str]

    @property
    def resident(self) -> np.ndarray:
        return self.function < 0


class Commands(NamedTuple):
    """The commands of one function, in their order."""

    kind: List[str]
    name: List[Optional[str]]
    queue: np.ndarray  # index into the function's queues
    path: List[str]
    source: List[str]
    flops: np.ndarray
    bytes: np.ndarray
    waits_for: np.ndarray  # index of a command, or -1

    def __len__(self) -> int:
        return len(self.queue)


class Accesses(NamedTuple):
    """What the commands of one function touch, in the commands' order."""

    command: np.ndarray  # index of a command
    block: np.ndarray  # index of a block
    access: np.ndarray  # 1 read, 2 write, 3 both
    bytes: np.ndarray


class Queue(NamedTuple):
    kind: str
    axes: str

    @property
    def name(self) -> str:
        return ("%s %s" % self).strip()


class Function(NamedTuple):
    """What one function does whenever it is called."""

    name: str
    arena_bytes: int
    queues: List[Queue]
    commands: Commands
    accesses: Accesses
    blocks: np.ndarray  # indices of the blocks in its arena


class CallInfo(NamedTuple):
    """One call, without what was measured inside."""

    call: int
    rank: int
    step: int
    function: int  # index of a function
    begin: int
    end: int


class Call(NamedTuple):
    """One call, with the times of all its commands."""

    info: CallInfo
    function: Function
    begin: np.ndarray  # for each command; NOT_MEASURED where there is no time
    end: np.ndarray
    transfer_begin: np.ndarray  # NOT_MEASURED: moves nothing
    transfer_end: np.ndarray
    allocations: np.ndarray  # rows of block, address, malloc and free times


class Profile:
    """One file."""

    def __init__(self, path: str, incomplete: bool = False):
        """Raises ReportError. `incomplete`: also one that was not closed."""
        self.path = path
        self._connection = open_database(path)
        try:
            self._read(incomplete)
        except (sqlite3.Error, OverflowError, TypeError, ValueError, KeyError) as error:
            raise damaged(path, error) from None

    def _read(self, incomplete: bool) -> None:
        self._check(incomplete)
        self.process = int(self.trace.get("process") or 0)
        self.processes = int(self.trace.get("processes") or 1)
        self.origin = int(self.trace.get("origin_unix_ns") or 0)  # of times, Unix
        rows = self._rows("SELECT rank, coordinates FROM ranks ORDER BY rank")
        self.ranks: Dict[int, Dict[str, int]] = {
            rank: json.loads(coordinates) for rank, coordinates in rows
        }
        self.functions: List[Function] = []
        self._command_numbers: List[np.ndarray] = []
        numbers = self._rows("SELECT function FROM functions ORDER BY function")
        self._function_index = {row[0]: index for index, row in enumerate(numbers)}
        for function in self._function_index:
            columns = "SELECT command FROM commands WHERE function = ? ORDER BY command"
            commands = matrix(self._rows(columns, function), 1)[:, 0]
            self._command_numbers.append(commands)
        self.blocks = self._read_blocks()
        # What is resident has -1 for both.
        _check_order(self.blocks.first + 1, self.blocks.last + 1, "blocks")
        _check_order(np.zeros_like(self.blocks.bytes), self.blocks.bytes, "sizes")
        for function in self._function_index:
            self.functions.append(self._read_function(function))
        self.calls = self._read_calls()
        self._steps = sorted({info.step for info in self.calls})

    def _check(self, incomplete: bool) -> None:
        application = self._rows("PRAGMA application_id")[0][0]
        if application != APPLICATION_ID:
            raise ReportError(
                "%s is an SQLite database, but no profile; expected a file that "
                "`optimus-run train --profile` wrote" % self.path
            )
        version = self._rows("PRAGMA user_version")[0][0]
        if version != VERSION:
            raise ReportError(
                "%s has version %d of the format of profiles, and this optimus-report "
                "reads version %d; use the one of the optimus-run that wrote it"
                % (self.path, version, VERSION)
            )
        # Not views and virtual tables, whose code is the file's choice: they have no page.
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        names = {row[0] for row in self._rows(tables)}
        for table in TABLES.split():
            if table not in names:
                raise ReportError(
                    "%s has no table '%s', which every profile has; it was damaged or "
                    "changed after it was written" % (self.path, table)
                )
        self.trace = dict(self._rows("SELECT key, value FROM trace"))
        if not self.trace.get("complete") and not incomplete:
            raise ReportError(
                "%s was not closed: its run is still going on, or was killed; wait for "
                "its end, or give --incomplete to read the calls it has" % self.path
            )
        if not incomplete:
            check_whole(self._connection)

    def _rows(self, query: str, *values) -> List[tuple]:
        return self._connection.execute(query, values).fetchall()

    def _read_blocks(self) -> Blocks:
        rows = self._rows(
            "SELECT block, function, address, bytes, first, last, category, name, path,"
            " source FROM blocks ORDER BY block"
        )
        self.block_numbers = column(rows, 0)
        function = [
            -1 if row[1] is None else self._function_index[row[1]] for row in rows
        ]
        categories = sorted({row[6] or "other" for row in rows})
        number = {category: index for index, category in enumerate(categories)}
        return Blocks(
            function=np.array(function, np.int64),
            address=column(rows, 2),
            bytes=column(rows, 3),
            category=np.array([number[row[6] or "other"] for row in rows], np.int64),
            first=self._commands_of(rows, function, 4),
            last=self._commands_of(rows, function, 5),
            names=[row[7] or "" for row in rows],
            paths=[row[8] or "" for row in rows],
            sources=[row[9] or "" for row in rows],
            categories=categories,
        )

    def _commands_of(self, rows, function, at: int) -> np.ndarray:
        """Indices of the commands that the column `at` of blocks' rows names."""
        owner = np.array(function, np.int64)
        number = column(rows, at)
        index = np.full(len(rows), -1, np.int64)
        for each, commands in enumerate(self._command_numbers):
            mine = owner == each
            index[mine] = self._index(commands, number[mine], "command", "blocks")
        return index

    def _index(self, known: np.ndarray, numbers: np.ndarray, what: str, table: str):
        """Positions of `numbers` among the sorted numbers `known`."""
        index = np.searchsorted(known, numbers)
        found = index < len(known)
        found[found] = known[index[found]] == numbers[found]
        if not found.all():
            raise ReportError(
                "%s is not consistent: its table '%s' names the %s %d, which is not "
                "there" % (self.path, table, what, numbers[~found][0])
            )
        return index

    def _read_function(self, number: int) -> Function:
        name, arena = self._rows(
            "SELECT name, arena_bytes FROM functions WHERE function = ?", number
        )[0]
        queues = self._rows(
            "SELECT queue, kind, axes FROM queues WHERE function = ? ORDER BY queue",
            number,
        )
        rows = self._rows(
            "SELECT queue, flops, bytes, waits_for, kind, name, path, source FROM"
            " commands WHERE function = ? ORDER BY command",
            number,
        )
        index = self._function_index[number]
        known = self._command_numbers[index]
        waits_for = column(rows, 3)
        waits = waits_for != -1
        waits_for[waits] = self._index(known, waits_for[waits], "command", "commands")
        commands = Commands(
            kind=[row[4] or "" for row in rows],
            name=[row[5] for row in rows],
            queue=self._index(column(queues, 0), column(rows, 0), "queue", "commands"),
            path=[row[6] or "" for row in rows],
            source=[row[7] or "" for row in rows],
            flops=np.maximum(column(rows, 1), 0),
            bytes=np.maximum(column(rows, 2), 0),
            waits_for=waits_for,
        )
        touched = matrix(
            self._rows(
                "SELECT command, block, access, bytes FROM accesses WHERE function = ?"
                " ORDER BY command, operand",
                number,
            ),
            4,
        )
        return Function(
            name=name,
            arena_bytes=arena or 0,
            queues=[Queue(kind or "", axes or "") for _, kind, axes in queues],
            commands=commands,
            accesses=Accesses(
                self._index(known, touched[:, 0], "command", "accesses"),
                self._index(self.block_numbers, touched[:, 1], "block", "accesses"),
                touched[:, 2],
                touched[:, 3],
            ),
            blocks=np.flatnonzero(self.blocks.function == index),
        )

    def is_warm(self, step: int) -> bool:
        """Whether figures of time count it: not the first step, in which caches fill
        and pages are mapped, unless it is the only one."""
        return len(self._steps) < 2 or step != self._steps[0]

    def _read_calls(self) -> List[CallInfo]:
        calls = []
        for call, rank, step, function, begin, end in self._rows(
            "SELECT call, rank, step, function, begin, end FROM calls ORDER BY call"
        ):
            if function not in self._function_index or rank not in self.ranks:
                raise ReportError(
                    "%s is not consistent: call %s is of function %s on rank %s, which "
                    "is not there" % (self.path, call, function, rank)
                )
            # A call that a crash cut short has no end.
            if begin is not None and end is not None:
                _check_order(np.array([0, begin]), np.array([step, end]), "calls")
                index = self._function_index[function]
                calls.append(CallInfo(call, rank, step, index, begin, end))
        return calls

    def measured(self) -> Iterator[Call]:
        """All calls, in the file's order. Raises ReportError."""
        try:
            yield from self._measured()
        except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:
            raise damaged(self.path, error) from None

    def _measured(self) -> Iterator[Call]:
        spans = self._connection.execute(
            "SELECT call, commands, transfers FROM spans ORDER BY call"
        )
        allocations = self._allocations()
        infos = {info.call: info for info in self.calls}
        for number, commands, transfers in spans:
            allocated = allocations.until(number) if allocations else None
            info = infos.get(number)
            if info is None:  # cut short
                continue
            ran = json_rows(commands, 2)
            moved = json_rows(transfers, 3)
            begin, end = self._times(info, np.arange(len(ran)), ran)
            moved_begin, moved_end = self._times(info, moved[:, 0], moved[:, 1:])
            yield Call(
                info,
                self.functions[info.function],
                begin,
                end,
                moved_begin,
                moved_end,
                self._allocated(allocated),
            )

    def _allocations(self) -> Optional[Stream]:
        known = "SELECT 1 FROM sqlite_master WHERE name = 'allocations'"
        if not self._rows(known):
            return None
        query = (
            "SELECT call, block, address, malloc_begin, malloc_end, free_begin,"
            " free_end FROM allocations"
        )
        return Stream(self._connection, self.path, query, 7)

    def _allocated(self, rows: Optional[np.ndarray]) -> np.ndarray:
        """Rows of block (index), address, and the four times."""
        if rows is None:
            return np.empty((0, 6), np.int64)
        rows = rows[:, 1:].copy()
        rows[:, 0] = self._index(self.block_numbers, rows[:, 0], "block", "allocations")
        freed = rows[:, 5] != NOT_MEASURED
        _check_order(rows[freed, 2], rows[freed, 5], "allocations")
        return rows

    def _times(
        self, info: CallInfo, numbers: np.ndarray, spans: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Begin and end for each command of the function that a call is of."""
        commands = self._command_numbers[info.function]
        begin = np.full(len(commands), NOT_MEASURED, np.int64)
        end = begin.copy()
        index = self._index(commands, numbers, "command", "spans")
        begin[index], end[index] = (spans + info.begin).T
        _check_order(begin[index], end[index], "times of call %d" % info.call)
        return begin, end


def _check_order(begin: np.ndarray, end: np.ndarray, what: str) -> None:
    """Raises ValueError where something ends before it begins, or begins before 0."""
    if (begin < 0).any() or (end < begin).any():
        raise ValueError("%s end before they begin, or begin before 0" % what)
