# ===- synthetic_profile.py - Profiles that no run wrote ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes small profiles whose every number is known, by the contract between
optimus-run and optimus-report. Models a step of some layers: a forward that makes
activations, a backward with their last uses, and an all-reduce behind it."""

import json
import sqlite3
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

SCHEMA = """
CREATE TABLE trace(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE ranks(rank INTEGER PRIMARY KEY, coordinates TEXT);
CREATE TABLE functions(function INTEGER PRIMARY KEY, name TEXT, arena_bytes INTEGER);
CREATE TABLE queues(function INTEGER, queue INTEGER, kind TEXT, axes TEXT,
  PRIMARY KEY(function, queue)) WITHOUT ROWID;
CREATE TABLE commands(function INTEGER, command INTEGER, kind TEXT, name TEXT,
  queue INTEGER, path TEXT, source TEXT, flops INTEGER, bytes INTEGER,
  waits_for INTEGER, PRIMARY KEY(function, command)) WITHOUT ROWID;
CREATE TABLE blocks(block INTEGER PRIMARY KEY, function INTEGER, space TEXT, name TEXT,
  address INTEGER, bytes INTEGER, category TEXT, path TEXT, source TEXT,
  first INTEGER, last INTEGER);
CREATE TABLE accesses(function INTEGER, command INTEGER, operand INTEGER, block INTEGER,
  access INTEGER, bytes INTEGER, PRIMARY KEY(function, command, operand)) WITHOUT ROWID;
CREATE TABLE calls(call INTEGER PRIMARY KEY, rank INTEGER, step INTEGER,
  function INTEGER, begin INTEGER, end INTEGER);
CREATE TABLE spans(call INTEGER PRIMARY KEY, commands TEXT, transfers TEXT);
CREATE TABLE allocations(call INTEGER, block INTEGER, address INTEGER,
  malloc_begin INTEGER, malloc_end INTEGER, free_begin INTEGER, free_end INTEGER);
CREATE VIEW times(call, command, begin, end) AS
  SELECT call, key, begin + (value ->> 0), begin + (value ->> 1)
  FROM spans JOIN calls USING (call), json_each(spans.commands);
CREATE VIEW transfers(call, command, begin, end) AS
  SELECT call, value ->> 0, begin + (value ->> 1), begin + (value ->> 2)
  FROM spans JOIN calls USING (call), json_each(spans.transfers);
"""

READ, WRITE, BOTH = 1, 2, 3


class Shape(NamedTuple):
    """What a profile is of."""

    layers: int = 4
    ranks: int = 2
    steps: int = 3
    process: int = 0
    processes: int = 1
    dynamic: bool = False
    collectives: bool = True
    complete: int = 1
    model_hash: str = "a1b2"
    origin_unix_ns: int = 1_800_000_000_000_000_000


class _Program:
    """The commands, blocks and accesses of one step."""

    def __init__(self, shape: Shape):
        self.commands: List[dict] = []
        self.blocks: List[dict] = []
        self.accesses: List[tuple] = []
        self._shape = shape
        self._build()

    def _block(self, **columns) -> int:
        self.blocks.append(dict(columns, block=len(self.blocks) + 10))
        return len(self.blocks) - 1

    def _command(self, kind, path, touched, queue=0, waits_for=None, name=None) -> int:
        number = len(self.commands)
        for operand, (block, access) in enumerate(touched):
            columns = self.blocks[block]
            self.accesses.append(
                (number, operand, columns["block"], access, columns["bytes"])
            )
            if columns["space"] == "arena":
                columns["first"] = min(columns.get("first", number), number)
                columns["last"] = number
        self.commands.append(
            dict(
                kind=kind,
                path=path,
                queue=queue,
                waits_for=waits_for,
                name=name,
                source="gpt2.py:%d:0" % (100 + number % 50),
                flops=1000 if kind == "gemm" else 0,
                bytes=sum(self.blocks[block]["bytes"] for block, _ in touched),
            )
        )
        return number

    def _build(self) -> None:
        layers = self._shape.layers
        self._weights = [
            self._resident("h.%d.weight" % i, "parameter", 4096) for i in range(layers)
        ]
        moments = [
            self._resident("h.%d.moment" % i, "state", 8192) for i in range(layers)
        ]
        kept = [
            self._arena("h.%d.up" % i, "activation", 640 * (i + 1))
            for i in range(layers)
        ]
        gradients = [
            self._arena("h.%d.weight" % i, "gradient", 4096) for i in range(layers)
        ]
        for i in range(layers):
            scratch = self._arena("h.%d.gelu" % i, "workspace", 256)
            path = "h.%d.mlp.up" % i
            read = [(self._weights[i], READ), *([(kept[i - 1], READ)] if i else [])]
            self._command("gemm", path, [*read, (scratch, WRITE)])
            self._command(
                "launch", path, [(scratch, READ), (kept[i], WRITE)], name="gelu"
            )
        for i in reversed(range(layers)):
            path = "h.%d.mlp.up" % i
            touched = [(kept[i], READ), (self._weights[i], READ), (gradients[i], WRITE)]
            self._command("gemm", path, touched)
            if self._shape.collectives:
                start = self._command(
                    "all_reduce", path, [(gradients[i], BOTH)], queue=1
                )
                self._command("wait", path, [], waits_for=start)
            touched = [
                (gradients[i], READ),
                (moments[i], BOTH),
                (self._weights[i], BOTH),
            ]
            self._command("launch", "h.%d.weight" % i, touched, name="adamw")
        self._place()

    def _resident(self, name, category, size) -> int:
        address = sum(b["bytes"] for b in self.blocks if b["space"] == "resident")
        return self._block(
            function=None,
            space="resident",
            name=name,
            address=address,
            bytes=size,
            category=category,
            path=name,
            source="gpt2.py:7:0",
        )

    def _arena(self, path, category, size) -> int:
        return self._block(
            function=0,
            space="arena",
            name="",
            address=0,
            bytes=size,
            category=category,
            path=path,
            source="gpt2.py:9:0",
        )

    def _place(self) -> None:
        """No block shares its place with another, so the arena is their sum."""
        address = 0
        for block in self.blocks:
            if block["space"] == "arena":
                block["address"] = address
                address += -(-block["bytes"] // 64) * 64
        self.arena_bytes = address


def durations(command: dict, call: int) -> int:
    """Nanoseconds that a command takes; calls differ."""
    return {"gemm": 40_000, "launch": 9_000}.get(command["kind"], 1_500) + 137 * call


def write(path: Path, shape: Shape = Shape(), **trace) -> None:
    program = _Program(shape)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 0x4F505446")
    connection.execute("PRAGMA user_version = 2")
    connection.executescript(SCHEMA)
    _write_static(connection, shape, program, trace)
    _write_measured(connection, shape, program)
    connection.commit()
    connection.close()


def _write_static(connection, shape: Shape, program: _Program, trace: dict) -> None:
    known = dict(
        library="gpt.so",
        model_hash=shape.model_hash,
        strategy="summa",
        mesh="row:2,col:1",
        precision="f32",
        device="cpu",
        backend="local",
        placement="dynamic" if shape.dynamic else "planned",
        ranks=shape.ranks * shape.processes,
        threads_per_rank=1,
        optimus="0.1.0",
        processor="",
        host="here",
        process=shape.process,
        processes=shape.processes,
        origin_unix_ns=shape.origin_unix_ns,
        complete=shape.complete,
        ending="finished",
    )
    _insert(connection, "trace", list({**known, **trace}.items()))
    _insert(
        connection,
        "ranks",
        [(rank, json.dumps({"row": rank, "col": 0})) for rank in _ranks(shape)],
    )
    _insert(connection, "functions", [(0, "train_step", program.arena_bytes)])
    _insert(
        connection, "queues", [(0, 0, "compute", ""), (0, 1, "communication", "row")]
    )
    columns = "kind name queue path source flops bytes waits_for".split()
    commands = [
        (0, number, *(command[column] for column in columns))
        for number, command in enumerate(program.commands)
    ]
    _insert(connection, "commands", commands)
    columns = "block function space name address bytes category path source first last"
    blocks = [
        tuple(block.get(column) for column in columns.split())
        for block in program.blocks
    ]
    _insert(connection, "blocks", blocks)
    _insert(connection, "accesses", [(0, *row) for row in program.accesses])


def _ranks(shape: Shape):
    return range(shape.process * shape.ranks, (shape.process + 1) * shape.ranks)


def _write_measured(connection, shape: Shape, program: _Program) -> None:
    call = 0
    ready: Dict[int, int] = dict.fromkeys(_ranks(shape), 1_000)
    for step in range(1, shape.steps + 1):
        for rank in _ranks(shape):
            times, transfers = _times(program, ready[rank], call)
            begin, end = ready[rank] - 200, times[-1][2] + 500
            _insert(connection, "calls", [(call, rank, step, 0, begin, end)])
            commands = [(first - begin, last - begin) for _, first, last in times]
            moved = [
                (number, first - begin, last - begin)
                for number, first, last in transfers
            ]
            spans = (json.dumps(rows) if rows else None for rows in (commands, moved))
            _insert(connection, "spans", [(call, *spans)])
            if shape.dynamic:
                rows = _allocations(program, times)
                _insert(connection, "allocations", [(call, *row) for row in rows])
            ready[rank] = end + 50_000
            call += 1


def _times(program: _Program, now: int, call: int):
    times, transfers = [], []
    landed: Dict[int, int] = {}
    for number, command in enumerate(program.commands):
        begin = now
        now += durations(command, call)
        if command["kind"] == "all_reduce":
            landed[number] = now + 20_000
            transfers.append((number, begin + 100, landed[number]))
        waits_for: Optional[int] = command["waits_for"]
        if waits_for is not None:
            now = max(now, landed[waits_for] + 50)
        times.append((number, begin, now))
        now += 300
    return times, transfers


def _allocations(program: _Program, times: List[tuple]) -> List[tuple]:
    """A little before the first command, and a little after the last."""
    return [
        (
            *(block["block"], block["address"] + 4096),
            *(times[block["first"]][1] - 60, times[block["first"]][1] - 20),
            *(times[block["last"]][2] + 20, times[block["last"]][2] + 60),
        )
        for block in program.blocks
        if block["space"] == "arena"
    ]


def _insert(connection, table: str, rows: List[tuple]) -> None:
    if rows:
        places = ", ".join("?" * len(rows[0]))
        connection.executemany("INSERT INTO %s VALUES (%s)" % (table, places), rows)
