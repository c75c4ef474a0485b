# ===- test_stages.py - Two stages of a pipeline train as one rank ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""test/Stages makes two stages of a serial library by hand: tables of their own, sequences
in GPipe's order and in 1F1B's, slots of activations, messages. They train to the bits of the serial
library's step of microbatches."""

import json
import os
import shutil
import subprocess

import pytest

from optimus.report.profile import Profile
from tools import EMULATED, LlamaModel, call, mpirun, over_tcp, succeed

LLAMA = LlamaModel(3, 16, 2, 1, 32, 8, 40, 2)
MICROBATCHES = 4
# Of the three blocks, those of the first stage.
LAST = "model.layers.0"


needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")


ORDERS = ["gpipe", "1f1b"]


def command(tools, library, stages, backend, *folder, order="gpipe"):
    tool = tools.binaries.parent / "unittests" / "optimus-train-stages"
    return list(map(str, [tool, library, stages, backend, MICROBATCHES, order, *folder]))


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(LLAMA, None, "serial", "--accumulate")


@pytest.fixture(scope="module")
def serial(tools, library):
    """Losses, and checksums of what was trained."""
    printed = succeed(call(command(tools, library, "serial", "local"))).splitlines()
    losses = [line for line in printed if line.startswith("step ")]
    # Parameters and two averages of each: of 9 a block, and 3 others.
    assert len(losses) == len(set(losses)) == 3
    assert len(printed) == 3 + 3 * (9 * LLAMA.layers + 3)
    return printed


@pytest.mark.parametrize("order", ORDERS)
def test_threads_train_as_one_rank(tools, library, serial, tmp_path, order):
    staged = command(tools, library, LAST, "local", tmp_path / "saved", order=order)
    printed = succeed(call(staged)).splitlines()
    loaded = [line for line in printed if line.startswith("loaded ")]
    assert printed[: len(serial)] == serial
    # The checkpoint has what either stage holds.
    assert [line.replace("loaded", "trained") for line in loaded] == serial[3:]


def test_the_hidden_device_trains_as_one_rank(tools, library, serial):
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    for seed, order in enumerate(ORDERS, 1):
        hidden = dict(os.environ, OPTIMUS_DEVICE_CPU_LIBRARY=str(device))
        hidden["OPTIMUS_HIDDEN_SEED"] = str(seed)
        staged = command(tools, library, LAST, "local", order=order)
        assert succeed(call(staged, env=hidden)).splitlines() == serial


@needs_mpirun
def test_processes_of_mpi_train_as_one_rank(tools, library, serial, tmp_path):
    staged = command(tools, library, LAST, "mpi", tmp_path / "saved", order="1f1b")
    printed = succeed(call([*mpirun(2), *staged])).splitlines()
    assert printed[: len(serial)] == serial
    assert [line.split()[1:] for line in printed[len(serial) :]] == [
        line.split()[1:] for line in serial[3:]
    ]


def test_processes_over_tcp_train_as_one_rank(tools, library, serial):
    staged = command(tools, library, LAST, "tcp", order="1f1b")
    assert succeed(call([*over_tcp(2), *staged])).splitlines() == serial


@pytest.mark.parametrize("order", ORDERS)
def test_stages_are_simulated(tools, library, tmp_path, order):
    """Each stage's own calls, against a pipeline by hand: by their times without neighbours."""
    succeed(call(command(tools, library, LAST, "write", tmp_path, order=order)))
    empty, staged = tmp_path / "empty.so", tmp_path / "staged.so"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", empty], check=True)
    sections = [f".optimus.{name}={tmp_path / name}" for name in ("manifest", "programs")]
    flags = [word for section in sections for word in ("--add-section", section)]
    subprocess.run(["objcopy", *flags, empty, staged], check=True)

    def simulate(*flags):
        flags = ["--sequence", "train_microbatches", *flags]
        return json.loads(tools.run("optimus-simulate", staged, *flags, "--json", "-"))

    profile = tmp_path / "simulated.profile"
    answer = simulate("--profile", profile, "--slack")
    assert answer["mesh"].startswith("pipe:2")
    assert len({rank["computing_ms"] for rank in answer["ranks"]}) == 2
    assert min(one["slack_ms"] for one in answer["slack"]) == 0
    path = sum(part["ms"] for part in answer["critical_path"])
    assert path == pytest.approx(answer["step_ms"], rel=1e-9)
    # The second stage begins after the first's first forward, and nobody does both.
    times = [
        (call.info.rank, call.function.name, call.info.begin, call.info.end)
        for call in Profile(str(profile)).measured()
    ]
    for rank in 0, 1:
        mine = [(name, begin, end) for one, name, begin, end in times if one == rank]
        forwards = [end for name, _, end in mine if name == f"forward{rank}"]
        assert len(forwards) == MICROBATCHES
        assert all(a[2] <= b[1] for a, b in zip(mine, mine[1:]))
    begins = {(rank, name): begin for rank, name, begin, _ in reversed(times)}
    ends = {(rank, name): end for rank, name, _, end in reversed(times)}
    assert ends[0, "forward0"] <= begins[1, "forward1"]
    # GPipe's first backward waits for all forwards, 1F1B's for its own.
    last = max(end for _, name, _, end in times if name == "forward1")
    assert (begins[1, "backward1"] >= last) == (order == "gpipe")
    # A late first stage makes the second wait.
    late = simulate("--straggler", "0=3")
    assert late["ranks"][1]["exposed_ms"] > answer["ranks"][1]["exposed_ms"]
    refused = tools.call("optimus-simulate", staged, "--microbatches", "8")
    assert refused.returncode == 1 and "--microbatches: the sequence " in refused.stderr


@pytest.fixture(scope="module")
def gpu_library(tools, tmp_path_factory):
    """For the emulated GPU, with a launch for each tensor: those of several tensors would
    have some of both stages."""
    folder = tmp_path_factory.mktemp("gpu")
    fused, lowered, library = (folder / name for name in ("fuse.mlir", "exec.mlir", "gpu.so"))
    named = "--mlir-print-debuginfo"
    tools.run("optimus-compile", tools.program(LLAMA), *EMULATED[:2], "--accumulate",
              "--compile-to", "fuse", named, "-o", fused)  # fmt: skip
    passes = ["record-layouts"]
    passes += [name + "=target=cuda" for name in ("to-exec", "chain-launches", "build-kernels")]
    tools.run("optimus-opt", fused, *("--optimus-" + name for name in passes), named, "-o", lowered)
    lowered.write_text(lowered.read_text().replace('phase = "fuse"', 'phase = "exec"'))
    tools.run("optimus-compile", lowered, "--compile-from", "exec", *EMULATED, "-o", library)
    return library


@pytest.mark.rotates
@pytest.mark.parametrize(
    "backend, order, prefix",
    [
        ("nccl", "gpipe", []),
        ("nccl", "1f1b", []),
        pytest.param("mpi", "gpipe", mpirun(2), marks=needs_mpirun),
    ],
)
def test_gpus_train_as_one(tools, gpu_library, tmp_path, backend, order, prefix):
    gpus = dict(tools.fake_gpu(count=2), TMPDIR=str(tmp_path))
    serial = succeed(call(command(tools, gpu_library, "serial", "local"), env=gpus))
    staged = command(tools, gpu_library, LAST, backend, order=order)
    assert serial.startswith("step 1: loss ")
    assert succeed(call([*prefix, *staged], env=gpus)) == serial
