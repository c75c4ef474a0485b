# ===- test_checkpoints.py - Killed, moved and resumed runs ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checkpoints of killed runs, and of runs that go on elsewhere."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import safetensors_file
from tools import TIMEOUT_SECONDS, Model, call, losses, mpirun, over_tcp, succeed

MODEL = Model(layers=1, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)
# Such small products gain nothing from a second thread, and on a busy machine
# every barrier between threads may wait for a time slice.
FLAGS = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa")


def saved_step(folder):
    """The step of a whole checkpoint, or None while there is none."""
    try:
        return json.loads((folder / "state.json").read_text())["step"]
    except FileNotFoundError:
        return None


def unfinished(parent):
    """The remains of a killed writer beside its checkpoint."""
    names = [path.name for path in parent.iterdir() if path.name.startswith(".")]
    # A run that was killed leaves its claim too, at whatever moment.
    return [name for name in names if not name.endswith(".optimus-lock")]


def wait_for_step(process, folder, step):
    """Until a run has saved that step, or ended."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and (saved_step(folder) or 0) < step:
        assert time.monotonic() < deadline, "no step was saved"
        time.sleep(0.0005)


def run_and_kill(command, folder, after_step, delay):
    """Starts a run and kills it `delay` seconds after it saved a step, or, with
    no delay, while it writes the next.

    True if it was killed, False if it ended before.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for_step(process, folder, after_step)
        while delay is None and process.poll() is None:
            if unfinished(folder.parent):
                break
        time.sleep(delay or 0)
    finally:
        process.kill()
        _, errors = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def lines_of_killed_run(log):
    """The steps of a log whose last line may be cut short."""
    text = log.read_text() if log.exists() else ""
    lines = [json.loads(line) for line in text.split("\n")[:-1] if line]
    return [line for line in lines if "loss" in line]


@pytest.mark.alone
def test_killed_runs_resume_on_the_same_curve(tools, library, text, tmp_path):
    steps, kills = 60, 10
    expected = tools.train(library, text, steps, *FLAGS, log=tmp_path / "whole")
    expected = {line["step"]: line["loss"] for line in expected}
    folder = tmp_path / "checkpoint"
    choose = random.Random(11)
    killed = reached = writing = 0
    for round in range(kills):
        log = tmp_path / ("log-%d" % round)
        load = ["--load", folder] if reached else []
        save = ["--save", folder, "--save-every", 1]
        command = tools.train_command(
            library, text, steps, *FLAGS, *save, *load, log=log
        )
        # At the very moment of a write, or some steps later.
        target = reached + choose.randint(1, 3)
        delay = choose.uniform(0, 0.02) if round % 2 else None
        killed += run_and_kill(command, folder, target, delay)
        for line in lines_of_killed_run(log):
            assert line["step"] > reached
            assert line["loss"] == expected[line["step"]]
        now = saved_step(folder)
        assert now is not None and now >= target
        reached = now
        writing += bool(unfinished(tmp_path))
    assert killed >= kills // 2, "the runs ended before they could be killed"
    assert writing, "no run was killed while it wrote a checkpoint"
    log = tmp_path / "log-last"
    rest = tools.train(
        library, text, steps, *FLAGS, "--load", folder, "--save", folder, log=log
    )
    assert {line["step"]: line["loss"] for line in rest} == {
        step: loss for step, loss in expected.items() if step > reached
    }
    assert saved_step(folder) == steps
    # What the killed writers left was cleaned up.
    assert [path.name for path in tmp_path.iterdir() if path.name[0] == "."] == []


@pytest.mark.alone
def test_one_command_in_a_loop_with_kills(tools, library, text, tmp_path):
    """As a supervisor starts a job again and again: each run goes on where the
    last checkpoint is, and the log is that of one run."""
    steps, kills = 24, 4
    expected = tools.train(library, text, steps, *FLAGS, log=tmp_path / "whole")
    folder, log = tmp_path / "checkpoint", tmp_path / "log"
    save = ["--save", folder, "--save-every", 1, "--resume"]
    command = tools.train_command(library, text, steps, *FLAGS, *save, log=log)
    choose = random.Random(7)
    killed = 0
    for round in range(kills):
        target = (saved_step(folder) or 0) + choose.randint(1, 3)
        delay = choose.uniform(0, 0.02) if round % 2 else None
        killed += run_and_kill(command, folder, target, delay)
        assert saved_step(folder) >= target
    assert killed, "the runs ended before they could be killed"
    # To the end, and once more, when there is nothing left to do.
    succeed(call(command))
    assert "nothing to train" in succeed(call(command))
    assert saved_step(folder) == steps
    key = lambda line: (line["step"], line["loss"], line["grad_norm"])
    assert list(map(key, lines_of_killed_run(log))) == list(map(key, expected))


def running(folder):
    """The processes that have the library of this folder's tests open, beside
    the launcher: those of one job."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            is_rank = command.split(b"\0")[0].endswith(b"optimus-run")
            if is_rank and str(folder).encode() in command:
                found.append(int(entry.name))
    return sorted(found)


@pytest.mark.variants
@pytest.mark.alone
@pytest.mark.parametrize("backend, flag", [("mpi", "--save-async"), ("tcp", "--no-save-async")])
def test_any_process_killed_while_all_write(tools, library, text, tmp_path, backend, flag):
    """Whichever rank dies, and whenever, the checkpoint is the one before or the
    one after, and the job goes on from there."""
    steps, kills = 400, 4
    folder = tmp_path / "checkpoint"
    save = ["--save", folder, "--save-every", 1, "--resume", "--backend", backend, flag]
    command = tools.train_command(library, text, steps, *FLAGS, *save)
    start = [*(mpirun if backend == "mpi" else over_tcp)(4), *command]
    choose = random.Random(5)
    reached = 0
    for round in range(kills):
        job = subprocess.Popen(
            [str(word) for word in start],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for_step(job, folder, reached + 1)
            # While it writes the next, more or less.
            while job.poll() is None and not unfinished(tmp_path):
                pass
            time.sleep(choose.uniform(0, 0.004))
            ranks = running(folder)
            assert len(ranks) == 4
            os.kill(ranks[round % 4], signal.SIGKILL)
        finally:
            _, errors = job.communicate(timeout=TIMEOUT_SECONDS)
        assert job.returncode != 0, errors
        now = saved_step(folder)
        assert now is not None and now > reached
        reached = now
        # Read in full, by one process.
        succeed(tools.call("optimus-run", "eval", library, "--data", text, "--load", folder))
    last = ["--save", folder, "--resume"]
    succeed(call(tools.train_command(library, text, reached + 1, *FLAGS, *last)))
    assert saved_step(folder) == reached + 1
    assert unfinished(tmp_path) == []


@pytest.fixture(scope="module")
def halfway(tools, library, text, tmp_path_factory):
    """The log of 20 steps on 2x2, and the checkpoint after the tenth."""
    folder = tmp_path_factory.mktemp("halfway")
    whole = tools.train(library, text, 20, *FLAGS, log=folder / "whole")
    save = ["--save", folder / "checkpoint"]
    tools.train(library, text, 10, *FLAGS, *save, log=folder / "half")
    return whole, folder / "checkpoint"


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:2", "summa"),
        ("row:1,col:1", "summa"),
        ("row:1,col:4", "summa"),
        ("row:1,col:2", "megatron"),
        ("row:1,col:2", "megatron-sp"),
        # Moments lie elsewhere than their parameters.
        ("data:2,row:1,col:2", "summa"),
        ("data:2", "data"),
    ],
)
def test_resume_on_another_mesh(
    tools, text, halfway, tmp_path, mesh, strategy, library
):
    whole, checkpoint = halfway
    other = tools.library(MODEL, mesh, strategy)
    load = ["--load", checkpoint]
    log = tools.train(other, text, 20, *FLAGS, *load, log=tmp_path / "log")
    assert [line["step"] for line in log] == list(range(11, 21))
    if other == library:
        assert losses(log).tolist() == losses(whole)[10:].tolist()
    np.testing.assert_allclose(losses(log), losses(whole)[10:], rtol=1e-4)


def test_resume_under_mpi_is_bit_identical(tools, library, text, halfway, tmp_path):
    whole, checkpoint = halfway
    flags = [*FLAGS, "--load", checkpoint, "--save", tmp_path / "final"]
    log = tools.train(
        library, text, 20, *flags, log=tmp_path / "log", prefix=mpirun(4)
    )
    assert losses(log).tolist() == losses(whole)[10:].tolist()
    assert saved_step(tmp_path / "final") == 20


def test_loading_and_saving_changes_nothing(tools, text, halfway, tmp_path):
    _, checkpoint = halfway
    library = tools.library(MODEL, "row:1,col:4", "summa")
    flags = [*FLAGS, "--load", checkpoint, "--save", tmp_path / "copy"]
    succeed(call(tools.train_command(library, text, 10, *flags)))
    for name in ("model.safetensors", "optimizer.safetensors"):
        before = safetensors_file.read(checkpoint / name)
        after = safetensors_file.read(tmp_path / "copy" / name)
        assert before.keys() == after.keys()
        for tensor, values in before.items():
            assert after[tensor].tobytes() == values.tobytes(), tensor


SNAPSHOT = "snapshot of a checkpoint that is written behind steps: "


@pytest.mark.variants
@pytest.mark.parametrize("prefix", [[], mpirun(4)])
def test_what_is_saved_behind_steps_is_what_was_there(
    tools, library, text, tmp_path, prefix
):
    """Steps go on while a checkpoint is written: it is of the step that it says."""
    ends = {}
    for flag in ("--save-async", "--no-save-async"):
        folder = tmp_path / flag
        save = ["--save", folder, "--save-every", 1, flag]
        command = tools.train_command(library, text, 8, *FLAGS, *save)
        assert (SNAPSHOT in succeed(call([*prefix, *command]))) == (flag == "--save-async")
        ends[flag] = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert saved_step(folder) == 8
        assert unfinished(tmp_path) == []
    assert ends["--save-async"] == ends["--no-save-async"]


def test_a_snapshot_is_taken_where_memory_allows(tools, library, text, tmp_path):
    """By default; a machine is what /proc says of it."""
    (tmp_path / "root" / "proc").mkdir(parents=True)
    save = ["--save", tmp_path / "ck", "--save-every", 1, "--overwrite"]
    command = tools.train_command(library, text, 2, *FLAGS, *save)
    for mebibytes, behind in ((2, False), (4000, True)):
        lines = "MemTotal: %d kB\n" % (mebibytes * 1024)
        (tmp_path / "root" / "proc" / "meminfo").write_text(lines)
        environment = dict(os.environ, OPTIMUS_SYSTEM_ROOT=str(tmp_path / "root"))
        output = succeed(call(command, env=environment))
        assert (SNAPSHOT in output) == behind, mebibytes


def test_a_signal_waits_for_what_is_being_saved(tools, library, text, tmp_path):
    folder = tmp_path / "checkpoint"
    save = ["--save", folder, "--save-every", 3, "--save-async"]
    command = tools.train_command(library, text, 100000, *FLAGS, *save)
    run = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while run.poll() is None and (saved_step(folder) or 0) < 3:
            assert time.monotonic() < deadline, "no step was saved"
            time.sleep(0.001)
    finally:
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=TIMEOUT_SECONDS)
    assert "stopped by SIGTERM after step %d of" % saved_step(folder) in errors
    assert unfinished(tmp_path) == []


def test_saving_every_few_steps_and_at_the_end(tools, library, text, tmp_path):
    save = ["--save", tmp_path / "checkpoint", "--save-every", 4]
    tools.train(library, text, 6, *FLAGS, *save, log=tmp_path / "log")
    assert saved_step(tmp_path / "checkpoint") == 6
