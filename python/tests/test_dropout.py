# ===- test_dropout.py - Dropout against NumPy ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Which elements are dropped: the rule of docs/dropout.md, bit for bit."""

import json

import numpy as np
import pytest

from gpt2_reference import AdamW, Gpt2, Hyper
from interpreter import (
    Interpreter,
    draw_batch,
    draw_parameters,
    expect_gradients,
    expect_step,
    scalars,
)
from optimus import ir
from philox import Dropout, philox
from test_gradients import STEP, TOLERANCE
from tools import Checkpoint, Model, call, succeed

MODEL = Model(2, hidden=6, heads=3, sequence=5, vocabulary=7, batch=4, dropout=0.3)
# Every bit of the words matters.
SEED, FAR_STEP = 0x8123456789ABCDEF, 0x9ABC87654321


def test_philox_gives_the_known_answers():
    # Those that Random123 publishes for philox4x32-10.
    ones = 2**32 - 1
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    for counter, key, expected in [
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (pi, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ]:
        assert philox(counter, key).tolist() == list(expected)


@pytest.fixture
def interpreter(tools, tmp_path):
    return Interpreter(tools, tmp_path)


@pytest.mark.parametrize("step, microbatch", [(1, 0), (FAR_STEP, 3)])
def test_loss_and_gradients_equal_numpy(interpreter, step, microbatch):
    parameters, batch = draw_parameters(MODEL), draw_batch(MODEL)
    dropout = Dropout(MODEL.dropout, SEED, step, microbatch)
    program = interpreter.lower(MODEL, *STEP)
    arguments = {**parameters, **batch._asdict()}
    results = interpreter.run(
        program, "grad_step", {**arguments, "random": dropout.words()}
    )
    reference = Gpt2(parameters, MODEL.heads)
    plain, _ = reference.loss(*batch)
    reference.dropout = dropout
    loss, count, gradients = reference.loss_and_gradients(*batch)
    assert abs(loss - plain) > 0.01
    assert results["real_count"] == count
    expect_gradients(results, loss, gradients, TOLERANCE)
    # Evaluation drops nothing, and asks for no words.
    evaluated = interpreter.run(program, "eval_step", arguments)
    assert evaluated["loss_sum"] == pytest.approx(plain, rel=TOLERANCE)


def test_each_training_step_draws_anew(interpreter):
    hyper, lr = Hyper(epsilon=1e-3), 0.01
    program = interpreter.lower(MODEL, *STEP)
    state = draw_parameters(MODEL)
    trainer = AdamW({name: p.copy() for name, p in state.items()}, MODEL.heads, hyper)
    batch = draw_batch(MODEL)
    for step in (1, 2):
        dropout = trainer.model.dropout = Dropout(MODEL.dropout, SEED, step)
        words = {"random": dropout.words()}
        arguments = {**state, **batch._asdict(), **words, **scalars(step, lr, hyper)}
        results = interpreter.run(program, "train_step", arguments)
        mean_loss, norm = trainer.step(*batch, lr)
        expected = dict(parameter=trainer.model.p, exp_avg=trainer.m, exp_avg_sq=trainer.v)
        state = expect_step(results, mean_loss, norm, expected, TOLERANCE)


BATCH, SEQUENCE, HIDDEN, RATE = 5, 7, 70, 0.4


def probe() -> str:
    """A program whose gradients show the dropped elements.

    With a table of its own for the head, the row of the embedding that token t
    chooses has the gradient of the only position where t stands, and there
    zeros exactly where elements were dropped.
    """
    vocabulary = BATCH * SEQUENCE + 1
    description = dict(batch=BATCH, sequence=SEQUENCE, vocabulary=vocabulary)
    model = ir.LossFunction(description)
    tables = [
        model.parameter(
            name, (vocabulary, HIDDEN), ("vocabulary", "hidden"), init
        )
        for name, init in [("in", ir.Init.normal(1.0)), ("out", ir.Init.normal(1.0))]
    ]
    shape, dims = (BATCH, SEQUENCE), ("batch", "sequence")
    tokens, targets = (model.input(name, shape, dims) for name in ("tokens", "targets"))
    x = model.embedding("embedded", tables[0], tokens)
    x = model.dropout("first", x, 0.0)
    x = model.dropout("dropped", x, RATE)
    model.head_loss(x, tables[1], targets, 512)
    return model.text()


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", ["row:1,col:1", "row:2,col:2", "row:2,col:3"])
@pytest.mark.parametrize("strategy", ["summa", "megatron"])
def test_compiled_masks_are_the_rule_s(tools, tmp_path, mesh, strategy):
    program, library = tmp_path / "probe.mlir", tmp_path / "probe.so"
    program.write_text(probe())
    options = ["--mesh", mesh, "--strategy", strategy]
    tools.run("optimus-compile", program, *options, "-o", library)
    data = tmp_path / "data.bin"
    data.write_bytes(np.arange(BATCH * SEQUENCE + 1, dtype="<u2").tobytes())
    rows = np.arange(BATCH * SEQUENCE).reshape(BATCH, SEQUENCE)

    trained = tmp_path / "trained"
    flags = ["--seed", SEED, "--save", trained]
    succeed(call(tools.train_command(library, data, 1, *flags)))
    # A first moment is zero exactly where the gradient is.
    gradient = Checkpoint(trained).moments["exp_avg.in"][rows]
    expected = Dropout(RATE, SEED, 1).kept(1, gradient.shape)
    assert ((gradient != 0) == expected).all()
    assert 0 < expected.sum() < expected.size
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    roles = {
        function["name"]: [
            manifest["buffers"][argument["buffer"]]["role"]
            for argument in function["args"]
        ]
        for function in manifest["functions"]
    }
    assert "random" in roles["train_step"] and "random" in roles["grad_step"]
    assert "random" not in roles["eval_step"]
