# ===- test_profile.py - When the commands of a run took place -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-run train --profile`, read with Python's own sqlite3: the promises of
docs/profile.md on the file, and the equality of a run with and without."""

import collections
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

from test_hidden_device import hide
from tools import (
    Model,
    call,
    default_signals,
    losses,
    mpirun,
    read_log,
    succeed,
)

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
        assert self.one("PRAGMA user_version") == 2
        assert self.trace["complete"] == 1
        self.check_calls()
        self.check_order()
        self.check_transfers()
        self.check_blocks()

    def check_calls(self):
        """Every command of every call is there, in order, within the call."""
        calls = self.rows("SELECT call, function, begin, end FROM calls ORDER BY call")
        assert [call for call, *_ in calls] == list(range(len(calls)))
        times = self.rows("SELECT call, command, begin, end FROM times")
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


@pytest.mark.parametrize("value", ["5:2", "0:3", "3", "a:b", "1:2:3", "-1:4", "1:99999999999999999999"])
def test_steps_that_mean_nothing_are_refused(tools, text, tmp_path, value):
    flags = ["--profile", tmp_path / "run.profile", "--profile-steps=" + value]
    result = call(tools.train_command(tools.library(GPT2), text, STEPS, *flags))
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == (
        "optimus-run: error: --profile-steps: expected the first and the last step to "
        "record, FIRST:LAST with 1 <= FIRST <= LAST, as in 5:20, found " + value
    )
    assert not list(tmp_path.iterdir())


def test_steps_that_the_run_does_not_take_are_refused(tools, text, tmp_path):
    library, folder, profile = tools.library(GPT2), tmp_path / "saved", tmp_path / "run.profile"
    succeed(call(tools.train_command(library, text, STEPS, "--save", folder)))
    flags = ["--profile", profile, "--profile-steps"]
    for steps, more in (("%d:9" % (STEPS + 1), []), ("1:%d" % STEPS, ["--load", folder])):
        last = STEPS + 2 if more else STEPS
        result = call(tools.train_command(library, text, last, *flags, steps, *more))
        assert result.returncode == 1
        first = STEPS + 1 if more else 1
        assert "--profile: expected some of the steps %d to %d," % (first, last) in result.stderr
        assert result.stderr.rstrip().endswith("found " + steps)
        assert not profile.exists()


def test_steps_need_a_profile(tools, text):
    flags = ["--profile-steps", "1:2"]
    result = call(tools.train_command(tools.library(GPT2), text, STEPS, *flags))
    assert result.returncode == 1
    assert "--profile-steps requires --profile" in result.stderr


@pytest.mark.parametrize("name", ["library", "--data", "--log-json"])
def test_a_profile_is_nothing_else_of_the_run(tools, text, tmp_path, name):
    library, log = tools.library(GPT2), tmp_path / "log"
    path = {"library": library, "--data": text, "--log-json": log}[name]
    before = path.read_bytes() if path.exists() else None
    command = tools.train_command(library, text, STEPS, "--profile", path, log=log)
    result = call(command)
    assert result.returncode == 1
    assert "--profile" in result.stderr and "the same file" in result.stderr
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize("name", ["/dev/null", "/dev/full", "-", "pipe"])
def test_a_database_needs_a_file(tools, text, tmp_path, name):
    if name == "pipe":
        name = str(tmp_path / name)
        os.mkfifo(name)
    flags = ["--profile", name]
    result = call(tools.train_command(tools.library(GPT2), text, STEPS, *flags))
    assert result.returncode == 1
    assert result.stderr == (
        "optimus-run: error: --profile: cannot write '%s': it is a device, a pipe or a "
        "standard stream; expected the name of a file, since a database is not written "
        "in order\n" % name
    )


def test_a_full_disk_ends_recording_and_nothing_else(tools, text, tmp_path):
    library = tools.library(GPT2)
    path = tmp_path / "run.profile"
    command = tools.train_command(library, text, 200, "--profile", path)
    # A limit on files' sizes stands for it.
    limited = ["bash", "-c", 'ulimit -f 300; exec "$@"', "bash", *command]
    result = call(limited)
    assert result.returncode == 0
    warnings = [line for line in result.stderr.splitlines() if "--profile" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "optimus-run: warning: --profile: cannot write '%s': disk full: File too large; "
        "recorded up to step " % path
    )
    assert "step 200/200" in result.stdout
    profile = Profile(path)
    profile.check()
    last = profile.one("SELECT max(step) FROM calls")
    assert 0 < last < 200
    assert profile.trace["ending"] == (
        "disk full: File too large; recorded up to step %d" % last
    )
    assert [path] == list(tmp_path.iterdir())


def test_a_run_that_is_stopped_says_so(tools, text, tmp_path):
    path, log = tmp_path / "run.profile", tmp_path / "log"
    command = tools.train_command(
        tools.library(GPT2), text, 1000000, "--profile", path, log=log
    )
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=default_signals,
    ) as process:
        while not log.exists() or log.read_text().count("\n") < 4:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    profile = Profile(path)
    profile.check()
    assert profile.trace["ending"] == "stopped by SIGTERM"
    steps = [line["step"] for line in read_log(log)]
    assert [step for step, in profile.rows("SELECT step FROM calls")] == steps


def test_a_run_that_fails_says_so(tools, text, tmp_path):
    path = tmp_path / "run.profile"
    # Too large for anything to stay finite.
    flags = ["--lr", 1e30, "--profile", path]
    result = call(tools.train_command(tools.library(GPT2), text, 50, *flags))
    assert result.returncode == 1
    profile = Profile(path)
    profile.check()
    assert profile.trace["ending"].startswith("failed: training diverged: at step ")
    assert profile.trace["ending"][len("failed: ") :] in result.stderr


def test_a_rank_that_dies_leaves_the_profiles_of_the_others(tools, text, tmp_path):
    library = tools.library(GPT2, "row:1,col:2", "summa")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path, log = tmp_path / "run.profile", tmp_path / "log"
    meeting = ["--rendezvous", "127.0.0.1:%d" % port, "--ranks", 2, "--backend", "tcp"]
    processes = [
        subprocess.Popen(
            tools.train_command(
                *(library, text, 1000000, "--profile", path, *meeting, "--rank", rank),
                log=log,
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        while not log.exists() or log.read_text().count("\n") < 4:
            assert processes[0].poll() is None, processes[0].stderr.read()
            time.sleep(0.01)
        processes[1].kill()
        message = processes[0].communicate(timeout=60)[1]
        assert processes[0].returncode == 1
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    # What the dead one left is hidden.
    names = [name.name for name in tmp_path.iterdir() if name.name[0] != "."]
    assert sorted(names) == ["log", "run.profile.0"]
    profile = Profile(tmp_path / "run.profile.0")
    profile.check()
    assert profile.trace["ending"].startswith("failed: rank 1 ")
    assert profile.trace["ending"][len("failed: ") :] in message
    steps = [step for step, in profile.rows("SELECT step FROM calls")]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= 3
