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


@pytest.mark.parametrize("what", ["--comm", "--gemm"])
def test_machines_are_measured_without_a_librarys_flags(tools, what):
    result = tools.call("optimus-run", "bench", what, "--eager")
    assert result.returncode == 1
    assert "bench %s runs no library, for which --eager is" % what in result.stderr
