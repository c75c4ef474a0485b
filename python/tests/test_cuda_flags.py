# ===- test_cuda_flags.py - How steps are computed, by flags ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The flags of optimus-run that say how a GPU computes, on the fake driver of
runtime/device/cuda/fake."""

import json
import socket
import subprocess

import numpy as np
import pytest

from test_cuda_device import GPT2, STEPS
from tools import EMULATED, Checkpoint, call, read_log, succeed


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(GPT2, None, "serial", *EMULATED)


@pytest.fixture(scope="module")
def on_processor(tools):
    return tools.library(GPT2)


def train(tools, library, text, folder, *flags, **settings):
    """Losses, parameters, and what the fake GPU counted."""
    folder.mkdir()
    log, saved, counts = (folder / name for name in ("log", "checkpoint", "counts.json"))
    command = tools.train_command(
        library, text, STEPS, "--seed", 1, "--lr", 1e-2, "--save", saved, *flags, log=log
    )
    succeed(call(command, env=tools.fake_gpu(counts=counts, **settings)))
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    counted = json.loads(counts.read_text()) if counts.exists() else {}
    return numbers, Checkpoint(saved).parameters, counted


def assert_same(one, other):
    assert one[0] == other[0]
    for name, values in one[1].items():
        assert (values == other[1][name]).all(), name


@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_eager_steps_have_the_same_bits_and_no_graphs(tools, text, tmp_path, mesh, strategy):
    library = tools.library(GPT2, mesh, strategy, *EMULATED)
    recorded = train(tools, library, text, tmp_path / "recorded")
    eager = train(tools, library, text, tmp_path / "eager", "--eager")
    assert_same(recorded, eager)
    assert eager[2]["graph_launches"] == 0
    # Each step's commands are put on queues anew.
    assert eager[2]["launches"] >= recorded[2]["launches"]
    if mesh is None:
        assert recorded[2]["graph_launches"] > 0
        assert eager[2]["launches"] > recorded[2]["launches"]


def test_eager_processors_compute_as_ever(tools, on_processor, text, tmp_path):
    recorded = train(tools, on_processor, text, tmp_path / "as ever")
    assert_same(recorded, train(tools, on_processor, text, tmp_path / "eager", "--eager"))


def test_eager_is_for_all_that_runs_a_library(tools, library, text, tmp_path):
    counts = tmp_path / "counts.json"
    for command in (
        ("eval", library, "--data", text),
        ("verify", library, library, "--data", text),
        ("bench", library, "--steps", 2, "--warmup", 1),
    ):
        for flags, expected in (((), True), (("--eager",), False)):
            run = tools.command("optimus-run", *command, *flags)
            succeed(call(run, env=tools.fake_gpu(counts=counts)))
            assert (json.loads(counts.read_text())["graph_launches"] > 0) == expected, run


def gradients(tools, *arguments):
    command = tools.command("optimus-run", "verify", *arguments, "--json")
    result = call(command, env=tools.fake_gpu())
    assert result.returncode in (0, 1) and result.stdout, result.stderr
    return json.loads(result.stdout)


def test_tf32_rounds_as_much_as_its_bounds_say(tools, library, on_processor, text):
    exact = gradients(tools, on_processor, library, "--data", text)
    rounded = gradients(tools, on_processor, library, "--data", text, "--tf32")
    assert exact["same"] and rounded["same"]
    assert exact["loss_b"] != rounded["loss_b"]
    of_bounds = []
    for before, after in zip(exact["tensors"], rounded["tensors"]):
        assert after["relative_difference"] > before["relative_difference"], after["name"]
        # The loss is a mean, where rounding errors cancel.
        if after["name"] != "loss":
            assert after["relative_difference"] > before["bound"], after["name"]
            of_bounds.append(after["of_bound"])
    assert 0.001 < np.median(of_bounds) and max(of_bounds) < 0.5, of_bounds


def test_tf32_trains_and_is_said(tools, library, text, tmp_path):
    exact = train(tools, library, text, tmp_path / "f32")
    rounded = train(tools, library, text, tmp_path / "tf32", "--tf32")
    assert exact[0] != rounded[0]
    for kind, bound in ((0, 1e-3), (1, 5e-2)):
        expected, found = ([line[kind] for line in run[0]] for run in (exact, rounded))
        np.testing.assert_allclose(found, expected, rtol=bound)
    command = tools.train_command(library, text, 1, "--tf32")
    assert "products of f32 are in TF32" in succeed(call(command, env=tools.fake_gpu()))


def test_processors_have_no_tf32(tools, on_processor, text):
    for command in (
        ("train", on_processor, "--data", text, "--steps", 1),
        ("eval", on_processor, "--data", text),
        ("bench", on_processor, "--steps", 1),
    ):
        result = tools.call("optimus-run", *command, "--tf32")
        assert result.returncode == 1
        assert "products in TF32 (--tf32) are for GPUs" in result.stderr
    result = tools.call("optimus-run", "verify", on_processor, on_processor, "--data", text, "--tf32")
    assert result.returncode == 1 and "--tf32 is for libraries for GPUs" in result.stderr


def test_ranks_agree_on_tf32(tools, text, tmp_path):
    library = tools.library(GPT2, "row:1,col:2", "megatron", *EMULATED)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in (0, 1):
        where = ("--rank", rank, "--ranks", 2, "--rendezvous", "localhost:%d" % port)
        command = tools.train_command(library, text, 1, *where, *(["--tf32"] if rank else []))
        ranks.append(
            subprocess.Popen(command, env=tools.fake_gpu(), stderr=subprocess.PIPE, text=True)
        )
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "rank 1 and rank 0 disagree on --tf32" in "".join(said)


@pytest.mark.parametrize("what", ["--comm", "--gemm"])
def test_machines_are_measured_without_a_librarys_flags(tools, what):
    result = tools.call("optimus-run", "bench", what, "--eager")
    assert result.returncode == 1
    assert "bench %s runs no library, for which --eager is" % what in result.stderr
