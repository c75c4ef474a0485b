# ===- test_training.py - Training against NumPy --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the tools compute on one rank, held against the NumPy GPT-2."""

import json

import numpy as np
import pytest

from gpt2_reference import (
    AdamW,
    Gpt2,
    Hyper,
    parameter_shapes,
    sequential_batch,
    windows,
)
from optimizers_reference import learning_rate
from tools import Checkpoint, Model, call, losses

MODEL = Model(layers=2, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)
STEPS = 20
LR = 3e-3


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL)


@pytest.fixture(scope="module")
def initial(tools, library, text, tmp_path_factory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("initial") / "checkpoint"
    return tools.initial(library, text, folder)


def evaluate(tools, library, data, checkpoint):
    flags = ("--data", data, "--load", checkpoint.folder, "--json")
    return json.loads(tools.run("optimus-run", "eval", library, *flags))


def in_f64(tensors):
    return {name: values.astype(np.float64) for name, values in tensors.items()}


def test_initial_parameters(initial):
    parameters = initial.parameters
    shapes = dict(parameter_shapes(2, 48, 32, 256, 192))
    assert {name: p.shape for name, p in parameters.items()} == shapes
    for name, p in parameters.items():
        if name.endswith("bias"):
            assert not p.any(), name
        elif p.ndim == 1:
            assert (p == 1).all(), name
        else:
            std = 0.02 / np.sqrt(2 * MODEL.layers) if "c_proj" in name else 0.02
            # Means of n draws stray by std/sqrt(n), deviations by
            # std/sqrt(2n); ten tensors, five sigma.
            stray = 5 * std / np.sqrt(p.size)
            assert abs(p.mean()) < stray, name
            assert abs(p.std() - std) < stray, name
    values = [p.ravel() for p in parameters.values() if p.ndim == 2]
    # Every tensor has a stream of its own.
    firsts = [float(p[0]) for p in values]
    assert len(set(firsts)) == len(firsts)


def test_initial_moments_are_zero(initial):
    names = [name for name, _ in parameter_shapes(2, 48, 32, 256, 192)]
    moments = initial.moments
    assert moments.keys() == {
        kind + name for name in names for kind in ("exp_avg.", "exp_avg_sq.")
    }
    assert not any(values.any() for values in moments.values())
    assert initial.state["step"] == 0


def test_seed_decides_the_initial_parameters(tools, library, text, initial, tmp_path):
    same = tools.initial(library, text, tmp_path / "same").parameters
    other = tools.initial(library, text, tmp_path / "other", seed=2).parameters
    for name, p in initial.parameters.items():
        assert (p == same[name]).all(), name
        if p.ndim == 2:
            assert (p != other[name]).mean() > 0.99, name


@pytest.mark.rotates
def test_loss_of_all_windows(tools, library, text, text_tokens, initial):
    tokens, targets = windows(text_tokens, MODEL.sequence)
    # The last batch is not full, so that padding rows are exercised too.
    assert len(tokens) % MODEL.batch
    loss, count = Gpt2(in_f64(initial.parameters), MODEL.heads).loss(tokens, targets)
    found = evaluate(tools, library, text, initial)
    assert found["tokens"] == count
    assert found["loss"] == pytest.approx(loss / count, abs=1e-5)


@pytest.fixture(scope="module")
def trained(tools, library, text, tmp_path_factory):
    """The log and the final checkpoint of a run that clips."""
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--lr", LR, "--seed", 1, "--save", folder / "checkpoint"]
    log = tools.train(library, text, STEPS, *flags, log=folder / "log")
    return log, Checkpoint(folder / "checkpoint")


def numpy_run(initial, text_tokens, learning_rates, hyper=Hyper()):
    """The trainer after a run, and (loss, gradient norm) of each step."""
    trainer = AdamW(in_f64(initial.parameters), MODEL.heads, hyper)
    curve = [
        trainer.step(
            *sequential_batch(text_tokens, MODEL.sequence, MODEL.batch, step), lr
        )
        for step, lr in enumerate(learning_rates)
    ]
    return trainer, np.array(curve)


def test_training_follows_numpy(initial, trained, text_tokens):
    log, final = trained
    assert [line["step"] for line in log] == list(range(1, STEPS + 1))
    assert [line["lr"] for line in log] == pytest.approx([LR] * STEPS, rel=1e-6)
    trainer, curve = numpy_run(initial, text_tokens, [LR] * STEPS)
    # Clipping acts in some steps, and the loss falls: the run says something.
    assert (curve[:, 1] > 1).any()
    assert curve[-1, 0] < curve[0, 0] - 1
    np.testing.assert_allclose(losses(log), curve[:, 0], rtol=1e-4)
    norms = [line["grad_norm"] for line in log]
    np.testing.assert_allclose(norms, curve[:, 1], rtol=1e-3)
    # An update is at most about LR in any element; where a gradient's sign is
    # lost in rounding it may differ by that much. Of the whole path of STEPS
    # updates, all but a thousandth must agree on average.
    for name, p in final.parameters.items():
        assert np.abs(p - trainer.model.p[name]).mean() < 1e-3 * STEPS * LR, name
    assert final.state["step"] == STEPS


def test_evaluation_of_a_trained_model(tools, library, text, text_tokens, trained):
    _, final = trained
    tokens, targets = windows(text_tokens, MODEL.sequence)
    loss, count = Gpt2(in_f64(final.parameters), MODEL.heads).loss(tokens, targets)
    found = evaluate(tools, library, text, final)
    assert found["loss"] == pytest.approx(loss / count, abs=1e-5)


def test_every_gradient(tools, library, text, text_tokens, initial, tmp_path):
    # After one step exp_avg is (1 - beta1) times the mean's gradient, unless
    # clipped.
    flags = ["--seed", 1, "--clip", 1e30, "--save", tmp_path / "checkpoint"]
    tools.train(library, text, 1, *flags, log=tmp_path / "log")
    moments = Checkpoint(tmp_path / "checkpoint").moments
    batch = sequential_batch(text_tokens, MODEL.sequence, MODEL.batch, 0)
    model = Gpt2(in_f64(initial.parameters), MODEL.heads)
    _, count, gradients = model.loss_and_gradients(*batch)
    largest = max(np.abs(g).max() for g in gradients.values()) / count
    for name, gradient in gradients.items():
        expected = gradient / count
        found = moments["exp_avg." + name].astype(np.float64) / 0.1
        error = np.linalg.norm(found - expected)
        # Relative to the tensor; a gradient of zero in exact arithmetic, as of the
        # keys' bias, is only as exact as f32 sums of the rest.
        floor = 1e-7 * largest * np.sqrt(expected.size)
        assert error <= 1e-4 * np.linalg.norm(expected) + floor, name
        squares = moments["exp_avg_sq." + name].astype(np.float64) / 0.05
        np.testing.assert_allclose(
            squares, found**2, rtol=1e-4, atol=1e-30, err_msg=name
        )


def test_decay_is_for_matrices_only(tools, library, text, initial, tmp_path):
    # Two runs of one step that differ in the decay alone.
    finals = []
    for decay in (0.0, 0.5):
        folder = tmp_path / str(decay)
        flags = ["--seed", 1, "--lr", 0.1, "--weight-decay", decay, "--save", folder]
        tools.train(library, text, 1, *flags, log=tmp_path / "log")
        finals.append(Checkpoint(folder).parameters)
    for name, p in initial.parameters.items():
        found = finals[1][name] - finals[0][name]
        expected = -0.1 * 0.5 * p if p.ndim == 2 else np.zeros_like(p)
        # Both are differences of f32 numbers no larger than 1.2.
        np.testing.assert_allclose(found, expected, atol=4 * 2.0**-24, err_msg=name)


def test_warmup_and_cosine(tools, library, text, initial, text_tokens, tmp_path):
    command = ["--lr", LR, "--seed", 1, "--warmup", 5, "--schedule", "cosine"]
    log = tools.train(library, text, STEPS, *command, log=tmp_path / "log")
    rates = np.array([line["lr"] for line in log])
    np.testing.assert_allclose(rates[:5], LR * np.arange(1, 6) / 5, rtol=1e-6)
    assert (np.diff(rates[4:]) < 0).all()
    assert rates[-1] < 0.2 * LR
    # Half way between the end of the warm-up and the last step.
    assert rates[4:].mean() == pytest.approx((rates[4] + rates[-1]) / 2, rel=0.05)
    _, curve = numpy_run(initial, text_tokens, rates)
    np.testing.assert_allclose(losses(log), curve[:, 0], rtol=1e-4)


SCHEDULES = {
    "constant": {},
    "cosine": {"min-lr": 1e-4, "decay-steps": 11},
    "linear": {},
    "wsd": {"min-lr": 0},
    "inverse-sqrt": {"warmup": 3},
    "inverse-sqrt from its level": {"min-lr": 2e-4, "warmup": 4, "decay-steps": 6},
    "wsd without a plateau": {"decay-steps": 500, "warmup": 2},
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(tools, library, text, tmp_path, schedule):
    name, numbers = schedule.split()[0], SCHEDULES[schedule]
    flags = [word for flag, value in numbers.items() for word in ("--" + flag, value)]
    flags = ["--lr", LR, "--schedule", name, *flags]
    log = tools.train(library, text, STEPS, *flags, log=tmp_path / "log")
    expected = [
        learning_rate(
            step,
            STEPS,
            name,
            LR,
            numbers.get("warmup", 0),
            numbers.get("min-lr"),
            numbers.get("decay-steps", 0),
        )
        for step in range(1, STEPS + 1)
    ]
    # In f64, in another order: a few units in the last place.
    np.testing.assert_allclose([line["lr"] for line in log], expected, rtol=1e-14)


def test_batches_are_read_while_a_lone_rank_runs(tools, library, text, tmp_path):
    """It has no thread of its own, but reading has."""
    *steps, _ = tools.train(library, text, 8, log=tmp_path / "log")
    assert all(0 < step["data_ms"] and 0 <= step["data_spare_ms"] for step in steps)
    # Other programs may keep a thread from starting in time.
    assert max(step["data_spare_ms"] / step["ms"] for step in steps) > 0.5


def test_a_lowest_rate_above_the_peak(tools, library, text):
    command = tools.train_command(library, text, 5, "--lr", 1e-3, "--min-lr", 1e-2)
    result = call(command)
    assert result.returncode == 1
    assert "--min-lr: expected at most lr, which is 0.001, found 0.01" in result.stderr


def test_binary_tokens(tools, tmp_path):
    model = MODEL._replace(vocabulary=301, layers=1, sequence=16)
    random = np.random.default_rng(5)
    tokens = random.integers(0, 301, 1500).astype("<u2")
    assert tokens.max() == 300
    data = tmp_path / "tokens.bin"
    data.write_bytes(tokens.tobytes())
    library = tools.library(model)
    initial = tools.initial(library, data, tmp_path / "checkpoint")
    reference = Gpt2(in_f64(initial.parameters), model.heads)
    loss, count = reference.loss(*windows(tokens, 16))
    found = evaluate(tools, library, data, initial)
    assert found == {
        "loss": pytest.approx(loss / count, abs=1e-5),
        "tokens": count,
    }


def test_shuffled_order_reads_every_window_once_an_epoch(tools, tmp_path):
    # Ten windows of distinct content, two a step: five steps are an epoch. With
    # a learning rate of zero a step's loss is that of its windows alone.
    model = MODEL._replace(layers=1, sequence=16, batch=2)
    data = tmp_path / "data.txt"
    random = np.random.default_rng(6)
    data.write_bytes(random.integers(0, 256, 161).astype(np.uint8).tobytes())
    library = tools.library(model)
    runs = {}
    for name, flags in {
        "sequential": ["--order", "sequential"],
        "shuffled": ["--order", "shuffled"],
        "again": ["--order", "shuffled"],
    }.items():
        common = ["--lr", 0, "--weight-decay", 0, "--seed", 1, *flags]
        log = tools.train(library, data, 10, *common, log=tmp_path / name)
        runs[name] = losses(log)
    assert (runs["shuffled"] == runs["again"]).all()
    assert (runs["sequential"][:5] == runs["sequential"][5:]).all()
    assert (runs["shuffled"][:5] != runs["shuffled"][5:]).any()
    for name in ("sequential", "shuffled"):
        epochs = runs[name].reshape(2, 5).mean(axis=1)
        # Sums of ten losses of about ln 256 in f32.
        assert epochs == pytest.approx(runs["sequential"][:5].mean(), rel=1e-6), name
