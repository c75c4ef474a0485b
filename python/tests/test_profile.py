# ===- test_profile.py - When the commands of a run took place -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-run train --profile`, read with Python's own sqlite3: what
docs/profile.md says of the file, and that a run is the same with and without."""

import collections
import json
import os
import sqlite3

import pytest

from test_hidden_device import hide
from tools import Model, call, losses, mpirun, read_log, succeed

GPT2 = Model(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
STEPS = 3
MESH = ("row:2,col:2", "summa", "--accumulate")


class Profile:
    """A profile file, and what every one must fulfil."""

    def __init__(self, path):
        self.database = sqlite3.connect("file:%s?mode=ro" % path, uri=True)

    def rows(self, query, *arguments):
        return self.database.execute(query, arguments).fetchall()

    def one(self, query, *arguments):
        ((value,),) = self.rows(query, *arguments)
        return value

    @property
    def trace(self):
        return dict(self.rows("SELECT key, value FROM trace"))

    def check(self):
        assert self.one("PRAGMA integrity_check") == "ok"
        assert self.one("PRAGMA application_id") == 0x4F505446
        assert self.one("PRAGMA user_version") == 1
        assert self.trace["complete"] == 1
        self.check_calls()
        self.check_order()
        self.check_transfers()
        self.check_blocks()

    def check_calls(self):
        """Every command of every call is there, in order, within the call."""
        calls = self.rows("SELECT call, function, begin, end FROM calls ORDER BY call")
        assert [call for call, *_ in calls] == list(range(len(calls)))
        times = self.rows("SELECT call, command, begin, end FROM times ORDER BY rowid")
        sizes = dict(
            self.rows("SELECT function, count(*) FROM commands GROUP BY function")
        )
        expected = [
            (number, command)
            for number, function, *_ in calls
            for command in range(sizes[function])
        ]
        assert [(number, command) for number, command, *_ in times] == expected
        for number, _, begin, end in times:
            assert 0 <= calls[number][2] <= begin <= end <= calls[number][3]

    def check_order(self):
        """Commands of a queue run one after the other."""
        last = collections.defaultdict(int)
        for number, queue, begin, end in self.rows(
            "SELECT call, queue, times.begin, times.end FROM times "
            "JOIN calls USING (call) JOIN commands USING (function, command) "
            "ORDER BY call, command"
        ):
            assert begin >= last[number, queue]
            last[number, queue] = end

    def check_transfers(self):
        """Each collective is in flight from its start to its wait's end."""
        starts = self.rows(
            "SELECT call, waited.waits_for, started.begin, ended.end "
            "FROM calls JOIN commands AS waited USING (function) "
            "JOIN times AS started USING (call) JOIN times AS ended USING (call) "
            "WHERE waited.waits_for = started.command AND ended.command = waited.command"
        )
        found = {
            (call, command): (begin, end)
            for call, command, begin, end in self.rows("SELECT * FROM transfers")
        }
        assert len(found) == len(starts)
        for number, command, begin, end in starts:
            assert begin <= found[number, command][0] <= found[number, command][1]
            assert found[number, command][1] <= end

    def check_blocks(self):
        """What is touched is alive, lies in the arena and is apart."""
        waits = {
            (function, started): command
            for function, command, started in self.rows(
                "SELECT function, command, waits_for FROM commands "
                "WHERE waits_for IS NOT NULL"
            )
        }
        touched = set()
        for function, command, owner, first, last, size, count in self.rows(
            "SELECT accesses.function, command, blocks.function, first, last, "
            "blocks.bytes, accesses.bytes FROM accesses JOIN blocks USING (block)"
        ):
            assert 0 < count <= size
            if owner is None:
                continue
            assert owner == function
            assert first <= command <= waits.get((function, command), command) <= last
            touched.add((function, first))
        assert touched
        for function, arena in self.rows("SELECT function, arena_bytes FROM functions"):
            blocks = self.rows(
                "SELECT address, bytes, first, last FROM blocks WHERE function = ?",
                function,
            )
            for address, size, first, last in blocks:
                assert address + size <= arena
                assert not [
                    other
                    for other in blocks
                    if other[0] > address
                    and other[0] < address + size
                    and other[2] <= last
                    and first <= other[3]
                ]


def train(tools, library, text, folder, *flags, prefix=(), **options):
    """The log, and the profile if there is one file."""
    folder.mkdir()
    log, path = folder / "log", folder / "run.profile"
    command = tools.train_command(library, text, STEPS, *flags, log=log)
    succeed(call([*prefix, *command, "--profile", path], **options))
    return read_log(log), Profile(path) if path.exists() else None


def plain_losses(tools, library, text, folder, *flags):
    return losses(tools.train(library, text, STEPS, *flags, log=folder / "plain"))


def test_serial(tools, text, tmp_path):
    library = tools.library(GPT2)
    log, profile = train(tools, library, text, tmp_path / "run")
    assert (losses(log) == plain_losses(tools, library, text, tmp_path)).all()
    profile.check()
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    expected = {
        "library": str(library),
        "model_hash": manifest["model_hash"],
        "strategy": "serial",
        "precision": "f32",
        "device": "cpu",
        "backend": "local",
        "placement": "planned",
        "ranks": 1,
        "process": 0,
        "processes": 1,
        "complete": 1,
        "ending": "finished",
    }
    assert expected.items() <= profile.trace.items()
    assert profile.rows("SELECT rank, step, name FROM calls JOIN functions USING (function)") == [
        (0, step, "train_step") for step in range(1, STEPS + 1)
    ]
    kinds = {kind for kind, in profile.rows("SELECT kind FROM commands")}
    assert {"gemm", "launch", "attention", "attention_grad"} <= kinds
    assert profile.rows("SELECT kind FROM commands WHERE (kind = 'launch') != (name IS NOT NULL)") == []
    path, source = profile.rows(
        "SELECT path, source FROM blocks WHERE name = 'h.0.attn.qkv:0'"
    )[0]
    assert path == "h.0.attn.qkv" and source.startswith("gpt2.py:")
    assert profile.one(
        "SELECT category FROM blocks WHERE space = 'resident' AND name = 'wte.weight'"
    ) == "parameter"


def test_threads_and_microbatches(tools, text, tmp_path):
    library = tools.library(GPT2, *MESH)
    flags = ["--microbatches", 2]
    log, profile = train(tools, library, text, tmp_path / "run", *flags)
    assert (losses(log) == plain_losses(tools, library, text, tmp_path, *flags)).all()
    profile.check()
    assert profile.one("SELECT count(*) FROM transfers") > 0
    assert [json.loads(place) for place, in profile.rows(
        "SELECT coordinates FROM ranks ORDER BY rank")] == [
        {"row": row, "col": col} for row in range(2) for col in range(2)
    ]
    assert {axes for axes, in profile.rows(
        "SELECT axes FROM queues WHERE kind = 'communication'")} == {"row", "col"}
    for rank in range(4):
        assert profile.rows(
            "SELECT step, name FROM calls JOIN functions USING (function) "
            "WHERE rank = ? ORDER BY call", rank,
        ) == [
            (step, name)
            for step in range(1, STEPS + 1)
            for name in ["accumulate", "accumulate", "update"]
        ]


def test_processes_write_a_file_each(tools, text, tmp_path):
    library = tools.library(GPT2, "row:1,col:2", "summa")
    log, none = train(tools, library, text, tmp_path / "run", prefix=mpirun(2))
    assert none is None
    assert (losses(log) == plain_losses(tools, library, text, tmp_path)).all()
    for rank in range(2):
        profile = Profile(tmp_path / "run" / ("run.profile.%d" % rank))
        profile.check()
        assert profile.trace["backend"] == "mpi"
        assert (profile.trace["process"], profile.trace["processes"]) == (rank, 2)
        assert profile.rows("SELECT * FROM ranks") == [
            (rank, json.dumps({"row": 0, "col": rank}, separators=(",", ":")))
        ]
        assert profile.rows("SELECT rank, step FROM calls") == [
            (rank, step) for step in range(1, STEPS + 1)
        ]


def test_queues_that_run_late_have_times_of_their_own(tools, text, tmp_path):
    library = tools.library(GPT2)
    _, profile = train(tools, library, text, tmp_path / "run", env=hide(tools, 1))
    profile.check()
    # Many commands were put on a queue before the first of them ran.
    call_begin, first = profile.rows(
        "SELECT calls.begin, times.begin FROM calls JOIN times USING (call) LIMIT 1"
    )[0]
    assert call_begin < first


def test_steps_can_be_chosen(tools, text, tmp_path):
    library = tools.library(GPT2)
    _, profile = train(tools, library, text, tmp_path / "run", "--profile-steps", "2:2")
    profile.check()
    assert profile.rows("SELECT step FROM calls") == [(2,)]
