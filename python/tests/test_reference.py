# ===- test_reference.py - The reference implementation itself ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The NumPy GPT-2 that the tools are held against is itself checked here."""

import numpy as np
import pytest

from finite_differences import check_central_differences
from gpt2_reference import (
    AdamW,
    Gpt2,
    Hyper,
    parameter_shapes,
    sequential_batch,
    windows,
)

LAYERS, HIDDEN, HEADS, SEQUENCE, VOCABULARY, FFN, BATCH = 2, 12, 3, 5, 11, 20, 3


@pytest.fixture
def problem():
    random = np.random.default_rng(7)
    # Weights large enough that every nonlinearity bends.
    parameters = {
        name: random.normal(0, 0.5, shape)
        for name, shape in parameter_shapes(LAYERS, HIDDEN, SEQUENCE, VOCABULARY, FFN)
    }
    tokens = random.integers(0, VOCABULARY, (BATCH, SEQUENCE))
    targets = random.integers(0, VOCABULARY, (BATCH, SEQUENCE))
    targets[1, 2:] = -1
    return parameters, tokens, targets


def test_gradients_equal_central_differences(problem):
    parameters, tokens, targets = problem
    model = Gpt2(parameters, HEADS)
    _, _, gradients = model.loss_and_gradients(tokens, targets)
    check_central_differences(
        lambda: model.loss(tokens, targets)[0],
        parameters, gradients, np.random.default_rng(8), draws=6,
    )


def test_only_real_targets_count(problem):
    parameters, tokens, targets = problem
    model = Gpt2(parameters, HEADS)
    loss, count = model.loss(tokens, targets)
    assert count == (targets >= 0).sum()
    total = 0.0
    for b in range(BATCH):
        for s in range(SEQUENCE):
            if targets[b, s] >= 0:
                one = np.full((1, SEQUENCE), -1)
                one[0, s] = targets[b, s]
                total += model.loss(tokens[b : b + 1], one)[0]
    # Both are sums of 12 terms of order 1 in f64.
    assert loss == pytest.approx(total, rel=1e-13)


def test_positions_do_not_see_later_tokens(problem):
    parameters, tokens, targets = problem
    model = Gpt2(parameters, HEADS)
    first = np.full_like(targets, -1)
    first[:, :2] = 1
    before, _ = model.loss(tokens, first)
    changed = tokens.copy()
    changed[:, 2:] = (changed[:, 2:] + 1) % VOCABULARY
    assert model.loss(changed, first)[0] == before


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary(problem):
    parameters, tokens, targets = problem
    parameters["wte.weight"][:] = 0
    loss, count = Gpt2(parameters, HEADS).loss(tokens, targets)
    assert loss / count == pytest.approx(np.log(VOCABULARY), rel=1e-14)


def test_first_update_moves_by_the_learning_rate(problem):
    parameters, tokens, targets = problem
    before = {name: p.copy() for name, p in parameters.items()}
    _, count, gradients = Gpt2(parameters, HEADS).loss_and_gradients(tokens, targets)
    trainer = AdamW(parameters, HEADS, Hyper(clip=1e30))
    trainer.step(tokens, targets, lr=0.01)
    for name, p in parameters.items():
        # Bias correction makes m = g and v = g^2 in the first step.
        g = gradients[name] / count
        decay = 0.1 if p.ndim == 2 else 0.0
        expected = -0.01 * (g / (np.abs(g) + 1e-8) + decay * before[name])
        np.testing.assert_allclose(p - before[name], expected, atol=1e-14)


def test_windows_drop_a_short_tail():
    tokens, targets = windows(np.arange(10), 3)
    assert tokens.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    # Nine tokens are two windows: the third would lack its last target.
    assert len(windows(np.arange(9), 3)[0]) == 2


def test_sequential_batches_wrap():
    tokens, _ = sequential_batch(np.arange(10), 3, batch=2, step=1)
    assert tokens.tolist() == [[6, 7, 8], [0, 1, 2]]
