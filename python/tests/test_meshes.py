# ===- test_meshes.py - One program on many meshes ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The same training run on every mesh and strategy."""

import json
import math
import operator
import os
import re

import numpy as np
import pytest

from selection import covering
from tools import Model, losses, mpirun

# Six heads do not divide by 4 columns, nor a batch of 4 by 3 rows.
EVEN = Model(layers=2, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)
# Nothing divides by 2 or 3, but the head's width.
RAGGED = Model(
    layers=1, hidden=70, heads=7, sequence=16, vocabulary=251, batch=5, ffn=101
)
STEPS = 50

MESHES = [
    *[
        ("row:%d,col:%d" % shape, "summa")
        for shape in [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (2, 3), (3, 2)]
    ],
    ("row:1,col:2", "megatron"),
    ("row:1,col:4", "megatron"),
    ("row:2,col:2", "summa-paper"),
    ("row:2,col:3", "summa-paper"),
    ("row:1,col:4", "megatron-sp"),
    ("row:2,col:2", "megatron-sp"),
    ("data:4", "data"),
    ("data:2,row:2,col:2", "summa"),
    ("data:2,row:1,col:2", "megatron-sp"),
]


DROPPING = RAGGED._replace(dropout=0.2)


class Run:
    """What one library does with one text."""

    def __init__(self, tools, library, data, folder, steps):
        self.library = library
        self.initial = tools.initial(library, data, folder / "initial").parameters
        self.final = folder / "final"
        # On a busy machine, threads would wait for each other's time slices.
        flags = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]
        flags += ["--save", self.final]
        self.log = tools.train(library, data, steps, *flags, log=folder / "log")


@pytest.fixture(scope="module")
def serial(tools, text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serial")
    return Run(tools, tools.library(EVEN), text, folder, STEPS)


@pytest.fixture(scope="module")
def ragged_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("ragged") / "text.txt"
    tokens = np.random.default_rng(9).integers(0, 251, 2000)
    path.write_bytes(tokens.astype(np.uint8).tobytes())
    return path


@pytest.fixture(scope="module")
def ragged_serial(tools, ragged_text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ragged-serial")
    return Run(tools, tools.library(RAGGED), ragged_text, folder, 10)


def agree(run, serial):
    for name, p in serial.initial.items():
        assert run.initial[name].shape == p.shape
        assert run.initial[name].tobytes() == p.tobytes(), name
    np.testing.assert_allclose(losses(run.log), losses(serial.log), rtol=1e-4)
    norms = [[line["grad_norm"] for line in each.log] for each in (run, serial)]
    np.testing.assert_allclose(*norms, rtol=1e-2)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy", MESHES)
def test_mesh_trains_as_one_rank(tools, text, serial, tmp_path, mesh, strategy):
    run = Run(tools, tools.library(EVEN, mesh, strategy), text, tmp_path, STEPS)
    assert losses(serial.log)[-1] < losses(serial.log)[0] - 1
    agree(run, serial)


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:2", "summa"),
        ("row:2,col:3", "summa"),
        ("row:3,col:2", "summa-paper"),
        ("row:1,col:2", "megatron"),
        ("row:1,col:3", "megatron-sp"),
        ("data:2", "data"),
        ("data:2,row:1,col:3", "summa"),
    ],
)
def test_dimensions_that_do_not_divide(
    tools, ragged_text, ragged_serial, tmp_path, mesh, strategy
):
    library = tools.library(RAGGED, mesh, strategy)
    agree(Run(tools, library, ragged_text, tmp_path, 10), ragged_serial)


def test_padding_is_said_once(tools):
    program = tools.program(EVEN._replace(batch=1))
    flags = ["--mesh", "row:8,col:4", "--compile-to", "partition", "-o", os.devnull]
    result = tools.call("optimus-compile", program, *flags)
    assert result.returncode == 0 and result.stderr.count("warning: ") == 1
    assert '"heads" from 6 to 8 (1.33 times) for col' in result.stderr
    assert '"batch" from 1 to 8 (8.00 times) for row' in result.stderr
    even = tools.call("optimus-compile", tools.program(EVEN), "--mesh", "row:2,col:2", *flags[2:])
    assert (even.returncode, even.stderr) == (0, "")


@pytest.fixture(scope="module")
def dropping_serial(tools, ragged_text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropping-serial")
    return Run(tools, tools.library(DROPPING), ragged_text, folder, 10)


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy", [("row:2,col:3", "summa"), ("row:1,col:2", "megatron")]
)
def test_every_mesh_drops_the_same_elements(
    tools, ragged_text, ragged_serial, dropping_serial, tmp_path, mesh, strategy
):
    # The same parameters at first, but not the same losses.
    before, dropping = ragged_serial.initial, dropping_serial.initial
    assert all((before[name] == p).all() for name, p in dropping.items())
    difference = losses(dropping_serial.log) - losses(ragged_serial.log)
    assert (np.abs(difference) > 1e-3).sum() > 5
    library = tools.library(DROPPING, mesh, strategy)
    agree(Run(tools, library, ragged_text, tmp_path, 10), dropping_serial)
    flags = ["--data", ragged_text]
    tools.run("optimus-run", "verify", dropping_serial.library, library, *flags)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy", MESHES)
def test_verify_compares_every_gradient(tools, text, serial, mesh, strategy):
    library = tools.library(EVEN, mesh, strategy)
    # At the start, and where attention has learnt and terms cancel.
    for flags in ([], ["--load", serial.final]):
        report = json.loads(
            tools.run(
                *("optimus-run", "verify", serial.library, library),
                *("--data", text, "--json", *flags),
            )
        )
        names = [tensor["name"] for tensor in report["tensors"]]
        assert names == ["loss", *serial.initial]
        assert all(tensor["same"] for tensor in report["tensors"])


def test_verify_names_the_first_gradient_that_differs(tools, text, serial, tmp_path):
    # The same parameters, but another epsilon in the last layer norm.
    head, epsilon, tail = tools.program(EVEN).read_text().rpartition("1.0e-05")
    assert epsilon
    program = tmp_path / "other.mlir"
    program.write_text(head + "1.1e-05" + tail)
    other = tmp_path / "other.so"
    tools.run("optimus-compile", program, "-o", other)
    flags = ["--data", text, "--json"]
    result = tools.call("optimus-run", "verify", serial.library, other, *flags)
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert report["same"] is False
    wrong = [tensor["name"] for tensor in report["tensors"] if not tensor["same"]]
    assert "`%s` is the first of %d tensors" % (wrong[0], len(wrong)) in result.stderr


def test_verify_tells_models_apart(tools, text, serial):
    other = tools.library(EVEN._replace(layers=1))
    result = tools.call("optimus-run", "verify", serial.library, other, "--data", text)
    assert result.returncode == 1
    assert "model" in result.stderr


def test_processes_and_threads_give_the_same_bits(tools, text, tmp_path):
    library = tools.library(EVEN, "row:2,col:2", "summa")
    flags = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]
    threads = tools.train(library, text, 10, *flags, log=tmp_path / "threads")
    processes = tools.train(
        library, text, 10, *flags, log=tmp_path / "mpi", prefix=mpirun(4)
    )
    for one, other in zip(threads, processes):
        for key in ("step", "loss", "grad_norm", "comm_bytes"):
            assert one[key] == other[key], key
    assert len(threads) == len(processes) == 10


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy, name", covering(MESHES, ["even", "ragged"])
)
def test_communication_is_what_the_manifest_says(
    tools, ragged_text, mesh, strategy, name
):
    library = tools.library({"even": EVEN, "ragged": RAGGED}[name], mesh, strategy)
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    predicted = {f["name"]: f["communication"] for f in manifest["functions"]}
    axes = dict(part.split(":") for part in mesh.split(","))
    shared = {axis for axis, n in axes.items() if int(n) > 1}
    assert predicted.keys() == {"train_step", "eval_step", "grad_step"}
    for entries in predicted.values():
        assert {entry["axis"] for entry in entries} == shared
        assert all(entry["bytes"] > 0 and entry["messages"] > 0 for entry in entries)
    # What the runtime counted, axis by axis.
    flags = ["--steps", 1, "--warmup", 0, "--json"]
    report = json.loads(tools.run("optimus-run", "bench", library, *flags))
    axis = operator.itemgetter("axis")
    counted = sorted(report["communication"], key=axis)
    assert counted == sorted(predicted["train_step"], key=axis)
    # These two compare what they count themselves, and fail where it differs.
    tools.run("optimus-run", "eval", library, "--data", ragged_text)
    tools.run("optimus-run", "verify", library, library, "--data", ragged_text)


def test_megatron_moves_what_its_formula_says(tools):
    # Forward, two all-reduces of [b, s, h] a layer over 4 ranks, 2 (4 - 1)
    # times the tensor each; this is exact for the products' part, so a model with one
    # layer more moves exactly twice as much in forward and backward.
    deeper = EVEN._replace(layers=3)
    moved = []
    for model in (EVEN, deeper):
        manifest = tools.manifest(model, "row:1,col:4", "megatron")
        (step,) = [f for f in manifest["functions"] if f["name"] == "train_step"]
        moved.append({c["axis"]: c["bytes"] for c in step["communication"]}["col"])
    activation = EVEN.batch * EVEN.sequence * EVEN.hidden * 4
    assert moved[1] - moved[0] == 4 * 2 * 3 * activation


def test_sequence_parallel_megatron_moves_what_its_formula_says(tools):
    # Units of (4 - 1) times [b, s, h] a layer: forward 2 all-gathers and 2
    # reduce-scatters, backward 4 all-gathers (the inputs of the products that widen
    # again, and dY of the narrowing products, once for both gradients) and 2
    # reduce-scatters. The norms' sums over all tokens come besides: two gains and
    # biases, and the biases of the products that narrow.
    even = EVEN._replace(heads=8)
    moved = []
    for model in (even, even._replace(layers=3)):
        manifest = tools.manifest(model, "row:1,col:4", "megatron-sp")
        (step,) = [f for f in manifest["functions"] if f["name"] == "train_step"]
        moved.append({c["axis"]: c["bytes"] for c in step["communication"]}["col"])
    activation = even.batch * even.sequence * even.hidden * 4
    vectors = 2 * 6 * even.hidden * 4
    assert moved[1] - moved[0] == 3 * (10 * activation + vectors)


def test_replicas_share_the_optimizers_state(tools):
    def local_elements(mesh, strategy, role):
        library = tools.library(EVEN, mesh, strategy)
        return sum(
            math.prod(buffer["local_shape"])
            for buffer in tools.buffers(library)
            if buffer["role"] == role
        )

    whole = local_elements("row:1,col:1", "summa", "parameter")
    for mesh, strategy, replicas, shards in [
        ("data:4", "data", 4, 1),
        ("data:2,row:2,col:2", "summa", 2, 4),
        ("data:2,row:1,col:2", "megatron-sp", 2, 2),
    ]:
        held = local_elements(mesh, strategy, "parameter")
        state = local_elements(mesh, strategy, "exp_avg")
        assert held >= whole / shards
        # Every dimension of this model is divisible, a few vectors aside.
        assert held / replicas <= state < 1.02 * held / replicas


def test_inspect_is_readable(tools):
    library = tools.library(EVEN, "row:2,col:2", "summa")
    text = tools.run("optimus-run", "inspect", library)
    assert "summa" in text
    assert re.search(r"row\D+2", text)
    # A row for what is alike in all layers, and nothing is left out.
    rows = text.split("\nParameters:")[1].split("\n\n")[0].splitlines()[2:]
    named = {row.split()[0]: int(row.split()[-3]) for row in rows}
    assert named["h.{0..1}.attn.c_attn.weight"] == 2 and named["wte.weight"] == 1
    assert sum(named.values()) == len(tools.buffers(library, "parameter"))
    # The others by role: so many states, and the layout of what there is once.
    rows = text.split("\nOther buffers, by role")[1].split("\n\n")[0].splitlines()[2:]
    others = {row.split()[0]: row.split() for row in rows}
    assert int(others["exp_avg"][-3]) == sum(named.values())
    assert others["exp_avg"][1:7] == "f32 state zeros - optimizer program".split()
    assert others["lr"][1:7] == "f32 call - - - host".split()
    assert "[{row}, {}]" in " ".join(others["tokens"])
    rows = text.split("\nWhat functions change and return")[1].splitlines()[2:5]
    effects = {row.split()[0]: " ".join(row.split()[1:]) for row in rows}
    assert effects == {
        "train_step": "parameter, exp_avg, exp_avg_sq loss_sum, real_count, grad_norm",
        "eval_step": "- loss_sum, real_count",
        "grad_step": "- loss_sum, real_count, grad",
    }


def test_report_gives_arena_and_bound(tools, tmp_path):
    result = tools.call(
        "optimus-compile",
        tools.program(EVEN),
        *("--mesh", "row:2,col:2", "--strategy", "summa", "--report"),
        *("-o", tmp_path / "model.so"),
    )
    assert result.returncode == 0
    report = (result.stdout + result.stderr).lower()
    assert "arena" in report
    assert "bound" in report
