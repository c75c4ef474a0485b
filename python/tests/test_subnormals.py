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
import shutil

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
