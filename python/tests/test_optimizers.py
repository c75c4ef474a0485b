# ===- test_optimizers.py - Optimizers and microbatches -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Optimizers other than AdamW, and gradients added up over microbatches."""

import json
import math
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gpt2_reference import sequential_batch
from interpreter import (
    Batch,
    Interpreter,
    draw_batch,
    draw_parameters,
    expect_step,
    relative_error,
    scalars,
)
from optimizers_reference import OPTIMIZERS, Hyper
from philox import Dropout
from test_gradients import TOLERANCE
from tools import Checkpoint, Model, call, losses

MODEL = Model(layers=2, hidden=16, heads=4, sequence=8, vocabulary=19, batch=4)
# Heads, vocabulary, hidden, feed-forward width and batch need padding.
PADDED = Model(1, hidden=10, heads=5, sequence=3, vocabulary=13, batch=5, ffn=9)
# See test_three_training_steps_equal_numpy of test_gradients.
HYPER = Hyper(epsilon=1e-3)


def steps(name, *more):
    return ("--optimus-differentiate", "--optimus-build-step=" + " ".join(["optimizer=" + name, *more]))


@pytest.fixture
def interpreter(tools, tmp_path):
    return Interpreter(tools, tmp_path)


def begin(name, parameters):
    """What an optimizer keeps before the first step. Lion moves by signs, and gradients
    of rounding alone have any sign: it begins with averages."""
    draw = np.random.default_rng(5).standard_normal if name == "lion" else np.zeros
    return {
        kind: {key: draw(p.shape) for key, p in parameters.items()}
        for kind in OPTIMIZERS[name].STATES
    }


# ------------------------------------------------------------ the interpreter


@pytest.mark.rotates
@pytest.mark.parametrize("clip", [0.01, 1e9], ids=["clipped", "free"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_training_steps_equal_numpy(interpreter, name, clip):
    lr, hyper = 0.01, HYPER._replace(clip=clip)
    program = interpreter.lower(MODEL, *steps(name))
    state = draw_parameters(MODEL)
    trainer = OPTIMIZERS[name](
        {key: p.copy() for key, p in state.items()}, MODEL.heads, hyper
    )
    trainer.states = begin(name, trainer.model.p)
    state.update(
        (kind + ":" + key, value.copy())
        for kind, kept in trainer.states.items()
        for key, value in kept.items()
    )
    for step in range(1, 4):
        batch = draw_batch(MODEL, seed=step)
        arguments = {**state, **batch._asdict(), **scalars(step, lr, hyper)}
        results = interpreter.run(program, "train_step", arguments)
        mean_loss, norm = trainer.step(*batch, lr)
        expected = {"parameter": trainer.model.p, **trainer.states}
        state = expect_step(results, mean_loss, norm, expected, TOLERANCE)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", ["row:2,col:2", "row:2,col:3", "data:2,row:1,col:2"])
@pytest.mark.parametrize("strategy", ["summa", "megatron"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_norms_are_those_of_whole_tensors(tools, tmp_path, name, strategy, mesh):
    """LAMB's norms of sharded and padded tensors, and others' updates."""
    interpreter = Interpreter(tools, tmp_path)
    state = draw_parameters(PADDED)
    kept = {
        kind + ":" + key: value
        for kind, tensors in begin(name, state).items()
        for key, value in tensors.items()
    }
    batch = draw_batch(PADDED)._asdict()
    arguments = {**state, **kept, **batch, **scalars(1, 0.01, HYPER)}
    serial = interpreter.lower(PADDED, *steps(name))
    expected = interpreter.run(serial, "train_step", arguments)
    program = tmp_path / "compiled.mlir"
    options = ["--mesh", mesh, "--strategy", strategy, "--optimizer", name]
    source = tools.program(PADDED)
    tools.run("optimus-compile", source, *options, "--compile-to", "fuse", "-o", program)
    results = interpreter.run(program, "train_step", arguments)
    assert results.keys() == expected.keys()
    for key, value in expected.items():
        assert relative_error(results[key], value) < TOLERANCE, key


@pytest.mark.variants
@pytest.mark.parametrize("mesh", [None, "row:2,col:3", "data:2,row:1,col:2"])
def test_microbatches_add_up_to_one_batch(tools, tmp_path, mesh):
    """Dropout included: a microbatch draws what its part of the batch draws."""
    interpreter = Interpreter(tools, tmp_path)
    model = PADDED._replace(batch=6, dropout=0.3)
    small = model._replace(batch=2)
    lr = 0.01
    parameters, batch = draw_parameters(model), draw_batch(model)
    dropout = Dropout(model.dropout, seed=5, step=9)
    whole = interpreter.run(
        interpreter.lower(model, *steps("adamw")),
        "train_step",
        {**parameters, **batch._asdict(), **scalars(9, lr, HYPER), "random": dropout.words()},
    )
    if mesh:
        program = tmp_path / "compiled.mlir"
        options = ["--mesh", mesh, "--strategy", "summa", "--accumulate"]
        source = tools.program(small)
        tools.run("optimus-compile", source, *options, "--compile-to", "fuse", "-o", program)
    else:
        program = interpreter.lower(small, *steps("adamw", "accumulate=true"))
    sums = {"grad_sum:" + name: np.zeros_like(p) for name, p in parameters.items()}
    sums.update(loss_sum=np.float64(0), real_count=np.float64(0))
    for number in range(3):
        part = Batch(*(x[2 * number : 2 * number + 2] for x in batch))
        words = dropout._replace(microbatch=number).words()
        sums = interpreter.run(
            program, "accumulate", {**parameters, **part._asdict(), **sums, "random": words}
        )
    assert sums["real_count"] == whole["real_count"]
    assert sums["loss_sum"] == pytest.approx(whole["loss_sum"], rel=TOLERANCE)
    results = interpreter.run(
        program, "update", {**parameters, **sums, **scalars(9, lr, HYPER)}
    )
    for key, value in results.items():
        assert relative_error(value, whole[key]) < TOLERANCE, key


# -------------------------------------------------------------- the libraries


COMPILED = Model(layers=2, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "name, lr", [("sgd", 0.05), ("lamb", 0.01), ("lion", 1e-3), ("adagrad", 0.02)]
)
def test_training_equals_numpy(tools, text, text_tokens, tmp_path, name, lr):
    flags = ["--optimizer", name]
    library = tools.library(COMPILED, None, "serial", *flags)
    initial = tools.initial(library, text, tmp_path / "initial")
    assert {key.split(".")[0] for key in initial.moments} == set(OPTIMIZERS[name].STATES)
    states = [buffer["role"] for buffer in tools.buffers(library, "state")]
    assert list(dict.fromkeys(states)) == list(OPTIMIZERS[name].STATES)
    folder = tmp_path / "trained"
    train = ["--lr", lr, "--momentum", 0.8, "--seed", 1, "--save", folder]
    log = tools.train(library, text, 8, *train, log=tmp_path / "log")
    parameters = {key: p.astype(np.float64) for key, p in initial.parameters.items()}
    trainer = OPTIMIZERS[name](parameters, COMPILED.heads, Hyper(momentum=0.8))
    expected = [
        trainer.step(*sequential_batch(text_tokens, 32, 4, step), lr) for step in range(8)
    ]
    # f32 against f64 over 8 steps; see test_training.
    np.testing.assert_allclose(losses(log), [loss for loss, _ in expected], rtol=1e-4)
    norms = [line["grad_norm"] for line in log]
    np.testing.assert_allclose(norms, [norm for _, norm in expected], rtol=1e-3)
    assert losses(log)[-1] < losses(log)[0]
    # On a mesh, and going on from a checkpoint of the serial run.
    other = tools.library(COMPILED, "row:2,col:3", "summa", *flags)
    sharded = tools.train(other, text, 8, *train[:6], log=tmp_path / "mesh-log")
    np.testing.assert_allclose(losses(sharded), losses(log), rtol=1e-4)
    load = ["--lr", lr, "--momentum", 0.8, "--load", folder]
    on = tools.train(other, text, 10, *load, log=tmp_path / "on-log")
    straight = tools.train(library, text, 10, *train[:6], log=tmp_path / "long-log")
    np.testing.assert_allclose(losses(on), losses(straight)[8:], rtol=1e-4)
    # Its state is not AdamW's; its parameters are.
    adamw = tools.library(COMPILED)
    command = tools.train_command(adamw, text, 10, "--load", folder)
    result = call(command)
    assert result.returncode == 1
    assert "the state of the optimizer" in result.stderr
    assert "--load-weights %s" % folder in result.stderr


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        (None, "serial"),
        pytest.param("row:3,col:2", "summa", marks=pytest.mark.long),
        ("row:1,col:2", "megatron"),
        ("data:2,row:1,col:2", "summa"),
    ],
)
def test_microbatches_train_as_one_batch(tools, text, tmp_path, mesh, strategy):
    model = COMPILED._replace(batch=6, dropout=0.2)
    flags = ["--lr", 3e-3, "--seed", 7, "--threads-per-rank", 1]
    whole = tools.train(tools.library(model), text, 10, *flags, log=tmp_path / "whole")
    # Three of two: on three rows of ranks one has padding only.
    small = model._replace(batch=2)
    library = tools.library(small, mesh, strategy, "--accumulate")
    flags += ["--microbatches", 3]
    folder = tmp_path / "saved"
    parts = tools.train(library, text, 10, *flags, "--save", folder, log=tmp_path / "parts")
    # As for meshes (test_meshes): sums in another order, over ten steps.
    np.testing.assert_allclose(losses(parts), losses(whole), rtol=1e-4)
    norms = [[line["grad_norm"] for line in log] for log in (parts, whole)]
    np.testing.assert_allclose(*norms, rtol=1e-2)
    assert Checkpoint(folder).state["data_position"] == 60


def memory_of(tools, model, mesh, flags, folder):
    """By the report: the bytes of the largest rank to call each function."""
    path = folder / "report.json"
    mesh_flags = ["--mesh", mesh[0], "--strategy", mesh[1]] if mesh else []
    tools.run("optimus-compile", tools.program(model), *mesh_flags, *flags,
              "--compile-to", "place", "--report-json", path, "-o", "/dev/null")
    memory = json.loads(path.read_text())["memory"]
    parts = ("parameters", "state", "gradients", "inputs", "arena", "scratch")
    return memory, {name: sum(row[part] for part in parts) for name, row in memory.items()}


# Wide enough for packed weights, where the processor has them.
PREPARED = Model(layers=2, hidden=64, heads=2, sequence=64, vocabulary=256, batch=2)
FORMS = {"f32": "packed weight", "bf16": "narrow weight"}
packs = pytest.mark.skipif("avx512f" not in Path("/proc/cpuinfo").read_text(),
                           reason="no packed weights without AVX-512")


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, precision",
    [
        ((), "bf16"),
        pytest.param((), "f32", marks=packs),
        pytest.param(("row:1,col:2", "megatron"), "f32", marks=packs),
    ],
)
def test_weights_are_prepared_once_a_step(tools, text, tmp_path, mesh, precision):
    """In memory of their own, which the report counts; where a budget does not allow
    it, in each call, and training has the same bits."""
    flags = ["--accumulate", "--precision", precision]
    memory, totals = memory_of(tools, PREPARED, mesh, flags, tmp_path)
    budget = ["--memory-budget", totals["train_step"]]
    without, _ = memory_of(tools, PREPARED, mesh, flags + budget, tmp_path)
    layout = mesh or (None, "serial")
    once = tools.library(PREPARED, *layout, *flags)
    always = tools.library(PREPARED, *layout, *flags, *budget)

    prepared = [b for b in tools.buffers(once, "sequence") if "reset" not in b]
    assert prepared and all("of" in b for b in prepared)
    roles = {"f32": {"packed", "packed_2"}, "bf16": {"narrow"}}[precision]
    assert {b["role"] for b in prepared} == roles
    size = {"f32": 4, "bf16": 2}[precision]
    held = sum(-(-math.prod(b["local_shape"]) * size // 64) * 64 for b in prepared)
    assert memory["microbatches"]["parameters"] == without["microbatches"]["parameters"] + held
    assert memory["train_step"] == without["train_step"]

    logs, calls = {}, {}
    for name, library in ("once", once), ("always", always):
        inspected = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
        peaks = {f["name"]: f["peak_bytes"] for f in inspected["functions"]}
        assert (FORMS[precision] in peaks["accumulate"]) == (name == "always")
        assert ("prepare" in peaks) == (name == "once")
        profile = tmp_path / (name + ".profile")
        logs[name] = tools.train(library, text, 3, "--microbatches", 3, "--profile", profile,
                                 "--threads-per-rank", 1, log=tmp_path / name)
        database = sqlite3.connect("file:%s?mode=ro" % profile, uri=True)
        calls[name] = [function for function, in database.execute(
            "SELECT name FROM calls JOIN functions USING (function) "
            "WHERE rank = 0 AND step = 2 ORDER BY call")]
    assert calls["once"] == ["prepare", *calls["always"]]
    assert calls["always"] == ["accumulate"] * 3 + ["update"]
    for key in "loss", "grad_norm", "comm_bytes":
        assert [line[key] for line in logs["once"]] == [line[key] for line in logs["always"]]


def test_a_call_alone_is_timed_on_prepared_weights(tools):
    library = tools.library(PREPARED, None, "serial", "--accumulate", "--precision", "bf16")
    report = json.loads(tools.run("optimus-run", "bench", library, "--function", "accumulate",
                                  "--steps", 1, "--warmup", 0, "--json"))
    assert report["function"] == "accumulate"


def test_gradients_cross_the_data_axis_once_a_step(tools, text, tmp_path):
    """However many microbatches: each rank adds up its own. What a microbatch
    does move there is the loss and the number of its real tokens, an all-reduce
    of 4 bytes each; with ZeRO-1 gradients are reduce-scattered."""
    ranks = 4
    library = tools.library(COMPILED, f"data:{ranks}", "data", "--accumulate")
    moved = {}
    for microbatches in (1, 2, 5):
        flags = ["--microbatches", microbatches, "--threads-per-rank", 1]
        log = tools.train(library, text, 2, *flags, log=tmp_path / str(microbatches))
        (moved[microbatches],) = {line["comm_bytes"] for line in log}
    scalars_of_one = 2 * 2 * (ranks - 1) * 4
    assert moved[2] == moved[1] + scalars_of_one
    assert moved[5] == moved[1] + 4 * scalars_of_one
    # Of the parameters, whose gradients are scattered and themselves gathered.
    parameters = sum(
        math.prod(p["shape"]) for p in tools.buffers(library, "parameter")
    )
    assert moved[1] >= 2 * (ranks - 1) * 4 * parameters


def test_microbatches_need_what_adds_up(tools, text):
    command = tools.train_command(tools.library(COMPILED), text, 1, "--microbatches", 2)
    result = call(command)
    assert result.returncode == 1
    assert "compile it with --accumulate" in result.stderr


def test_unknown_optimizer(tools, tmp_path):
    flags = ["--optimizer", "adam", "-o", tmp_path / "x.so"]
    result = tools.call("optimus-compile", tools.program(COMPILED), *flags)
    assert result.returncode == 1
    assert "known are adamw, lamb, sgd" in result.stderr
