# ===- test_gradients.py - The compiler's GPT-2 against NumPy -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the built and differentiated GPT-2 means, in f64.

The interpreter and the NumPy model compute the same formulas in another order
of sums. A sum of n terms is off by at most n * 2^-53 of the terms' magnitudes;
these models have n up to 100 and chain some twenty sums, whose terms cancel to
a hundredth at the least: 100 * 20 * 100 * 2^-53 = 2e-11 of the largest
element. 1e-10 is allowed.
"""

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
from tools import Model

TOLERANCE = 1e-10

MODELS = [
    Model(layers=2, hidden=16, heads=4, sequence=8, vocabulary=19, batch=3),
    # Odd sizes: every dimension is something else.
    Model(layers=1, hidden=6, heads=3, sequence=5, vocabulary=7, batch=2, ffn=11),
]
STEP = ("--optimus-differentiate", "--optimus-build-step")


@pytest.fixture
def interpreter(tools, tmp_path):
    return Interpreter(tools, tmp_path)


@pytest.mark.parametrize("fuse", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("model", MODELS, ids=["even", "odd"])
def test_loss_and_gradients_equal_numpy(interpreter, model, fuse):
    parameters, batch = draw_parameters(model), draw_batch(model)
    passes = STEP + (("--optimus-fuse",) if fuse else ())
    program = interpreter.lower(model, *passes)
    results = interpreter.run(program, "grad_step", {**parameters, **batch._asdict()})
    reference = Gpt2(parameters, model.heads)
    loss, count, gradients = reference.loss_and_gradients(*batch)
    assert results["real_count"] == count
    expect_gradients(results, loss, gradients, TOLERANCE)


@pytest.mark.parametrize("model", MODELS, ids=["even", "odd"])
def test_evaluation_is_the_same_loss(interpreter, model):
    parameters, batch = draw_parameters(model), draw_batch(model)
    program = interpreter.lower(model, *STEP)
    results = interpreter.run(program, "eval_step", {**parameters, **batch._asdict()})
    loss, count = Gpt2(parameters, model.heads).loss(*batch)
    assert results["real_count"] == count
    assert results["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)


@pytest.mark.parametrize("clip", [0.01, 1e9], ids=["clipped", "free"])
def test_three_training_steps_equal_numpy(interpreter, clip):
    model, lr = MODELS[0], 0.01
    # Without epsilon's help an element whose gradient is zero but for rounding
    # (the keys' bias: softmax does not see it) would move by the whole lr.
    hyper = Hyper(clip=clip, epsilon=1e-3)
    program = interpreter.lower(model, *STEP)
    state = draw_parameters(model)
    trainer = AdamW({name: p.copy() for name, p in state.items()}, model.heads, hyper)
    for step in range(1, 4):
        batch = draw_batch(model, seed=step)
        arguments = {**state, **batch._asdict(), **scalars(step, lr, hyper)}
        results = interpreter.run(program, "train_step", arguments)
        mean_loss, norm = trainer.step(*batch, lr)
        expected = dict(parameter=trainer.model.p, exp_avg=trainer.m, exp_avg_sq=trainer.v)
        state = expect_step(results, mean_loss, norm, expected, TOLERANCE)


def test_initial_parameters_have_the_runtime_s_bits(interpreter, tools, text, tmp_path):
    model = MODELS[0]._replace(vocabulary=256, init_std=0.25)
    checkpoint = tools.initial(tools.library(model), text, tmp_path / "start", seed=3)
    batch = draw_batch(model)
    program = interpreter.lower(model, *STEP)
    drawn = interpreter.run(program, "eval_step", batch._asdict(), "--seed", 3)
    given = interpreter.run(
        program, "eval_step", {**checkpoint.parameters, **batch._asdict()}
    )
    # One bit of one parameter would change the loss.
    assert drawn["loss_sum"] == given["loss_sum"]
    loss, _ = Gpt2(
        {n: p.astype(np.float64) for n, p in checkpoint.parameters.items()}, model.heads
    ).loss(*batch)
    assert given["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)
