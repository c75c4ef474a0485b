# ===- test_subnormals.py - Numbers below the normal ones -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-run --flush-subnormals: numbers below 1.2e-38 count as zero, on every thread of
every rank, however ranks communicate."""

import json
import platform
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from tools import EMULATED, Checkpoint, Model, call, mpirun, over_tcp, succeed

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
MESH = "row:2,col:2"
# A bias is zero at first, and a step moves it by about this rate.
TINY = ("--lr", "1e-40", "--weight-decay", 0)
FLUSH = "--flush-subnormals"


def command(tools, library, text, folder, *flags):
    return tools.train_command(library, text, 2, *TINY, "--save", folder, *flags)


def saved(folder):
    """Parameters and state."""
    return [(folder / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]


def subnormals(folder) -> int:
    """How many parameters are such numbers."""
    tiny = np.finfo(np.float32).tiny
    tensors = Checkpoint(folder).parameters.values()
    return sum(np.count_nonzero((each != 0) & (np.abs(each) < tiny)) for each in tensors)


def test_parameters_below_the_normal_ones_stay_zero(tools, text, tmp_path):
    library = tools.library(MODEL)
    for threads in 1, 2:
        kept, flushed = tmp_path / ("kept%d" % threads), tmp_path / ("flushed%d" % threads)
        flags = ["--threads-per-rank", threads]
        succeed(call(command(tools, library, text, kept, *flags)))
        log = tmp_path / "log"
        said = succeed(call(command(tools, library, text, flushed, *flags, FLUSH, "--log-json", log)))
        assert subnormals(kept) > 100 and subnormals(flushed) == 0
        assert "subnormal numbers count as zero" in said
        assert json.loads(log.read_text().splitlines()[0])["flush_subnormals"] == "yes"
        # Nothing else differs.
        for name, value in Checkpoint(kept).parameters.items():
            other = Checkpoint(flushed).parameters[name]
            assert np.array_equal(np.where(np.abs(value) < 1e-38, 0, value), other), name


@pytest.mark.variants
@pytest.mark.parametrize("backend", ["mpi", "tcp"])
def test_processes_have_the_bits_of_threads(tools, text, tmp_path, backend):
    if backend == "mpi" and not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    library = tools.library(MODEL, MESH, "summa")
    succeed(call(command(tools, library, text, tmp_path / "threads", FLUSH)))
    assert subnormals(tmp_path / "threads") == 0
    run = command(tools, library, text, tmp_path / backend, FLUSH, "--backend", backend)
    succeed(call([*(mpirun if backend == "mpi" else over_tcp)(4), *run]))
    assert saved(tmp_path / "threads") == saved(tmp_path / backend)


def test_gpus_refuse_it(tools, text, tmp_path):
    library = tools.library(MODEL, None, "serial", *EMULATED)
    result = call(command(tools, library, text, tmp_path / "saved", FLUSH), env=tools.fake_gpu())
    assert result.returncode == 1
    assert "no mode that takes subnormal numbers for zero (--flush-subnormals)" in result.stderr


def test_a_session_flushes_where_it_is_asked_to(optimus, tools, text):
    library = tools.library(MODEL)
    tokens = np.frombuffer(text.read_bytes(), np.uint8)[:33].astype(np.int32)
    rows = tokens[:32].reshape(4, 8), tokens[1:].reshape(4, 8)
    tiny = np.finfo(np.float32).tiny
    found = {}
    for flushes in False, True:
        with optimus.Session(
            library, lr=1e-40, weight_decay=0, flush_subnormals=flushes
        ) as session:
            losses = [session.train_step(*rows).loss for _ in range(2)]
            values = np.concatenate([each.ravel() for each in session.parameters.values()])
            found[flushes] = losses, np.count_nonzero((values != 0) & (np.abs(values) < tiny))
    assert found[False][0] == found[True][0]
    assert found[False][1] > 100 and found[True][1] == 0


class Slowed:
    """A training, which is slowed by stops of the whole process."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_bytes().count(b"\n") < 12:
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)

    def slow(self, times):
        """Steps take a few milliseconds: each is stopped several times."""
        for _ in range(times):
            for number, seconds in (signal.SIGSTOP, 0.01), (signal.SIGCONT, 0.0005):
                self.process.send_signal(number)
                time.sleep(seconds)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=60)[1]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others do not note such numbers")
@pytest.mark.parametrize("flags", [(), (FLUSH,)], ids=["kept", "flushed"])
@pytest.mark.parametrize("lanes", [0, 2], ids=["alone", "lanes"])
def test_steps_that_become_slow_by_them_are_told_of_once(tools, text, tmp_path, lanes, flags):
    """Their slowness is made; on some processors such numbers cost little."""
    model = Model(layers=2, hidden=64, heads=2, sequence=32, vocabulary=256, batch=8)
    library, log = tmp_path / "library.so", tmp_path / "log"
    more = ["--lanes", lanes] if lanes else []
    tools.run("optimus-compile", tools.program(model), *more, "-o", library)
    run = tools.train_command(library, text, 100_000, *TINY, "--threads-per-rank", 1, *flags)
    if lanes:
        rows = [f"--seed {lane}" for lane in range(lanes)]
        rows[0] += f" --log-json {log}"
        (tmp_path / "lanes").write_text("\n".join(rows) + "\n")
        run += ["--lanes", tmp_path / "lanes"]
    else:
        run += ["--log-json", log]
    slowed = Slowed(run, log)
    slowed.slow(150)
    said = [line for line in slowed.end().splitlines() if "worked on subnormal numbers" in line]
    assert len(said) == (not flags), said
    for line in said:
        assert line.startswith("optimus-run: warning: " + "some lane's " * bool(lanes) + "steps ")
