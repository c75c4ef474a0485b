# ===- test_window.py - Attention in a window -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A Llama with a window, Mistral: tokens see the last few of the sequence.

In f64 it is held against NumPy by test_llama and test_documents; here libraries are.
"""

import functools
import json

import numpy as np
import pytest

from gpt2_reference import windows
from interpreter import Interpreter, draw_batch, draw_parameters, expect_gradients
from llama_reference import Llama
from optimus.models.__main__ import program
from test_gradients import TOLERANCE
from tools import EMULATED, Checkpoint, LlamaModel, call, command_line, losses, read_log, succeed

# A window within a block of 64 keys, whose begin lies in another block too.
MODEL = LlamaModel(
    2, hidden=48, heads=6, kv_heads=3, ffn=64, sequence=96, vocabulary=256, batch=4, window=20
)
STEPS = 4
LAYOUTS = {
    "serial": [],
    "2x2": ["--mesh", "row:2,col:2"],
    "1x3": ["--mesh", "row:1,col:3", "--strategy", "megatron"],
    "emulated": EMULATED,
}


def source(path, model, *more):
    _, text = program([model.KIND, *command_line(model), *more])
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def libraries(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("window")
    text = source(folder / "model.mlir", MODEL)

    @functools.lru_cache(maxsize=None)
    def made(name):
        path = folder / (name + ".so")
        tools.run("optimus-compile", text, *LAYOUTS[name], "-o", path)
        return path

    return made


@pytest.fixture(scope="module")
def trained(tools, libraries, text, tmp_path_factory):
    """A checkpoint after a few steps on a layout, and their log beside it."""
    folder = tmp_path_factory.mktemp("trained")

    @functools.lru_cache(maxsize=None)
    def made(name):
        flags = ["--data", text, "--steps", STEPS, "--lr", 3e-3, "--seed", 1]
        flags += ["--save", folder / name, "--log-json", folder / (name + ".json")]
        command = tools.command("optimus-run", "train", libraries(name), *flags)
        succeed(call(command, env=tools.fake_gpu()))
        return folder / name

    return made


@pytest.mark.rotates
def test_evaluation_equals_numpy(tools, libraries, text, text_tokens, trained):
    state = Checkpoint(trained("serial"))
    parameters = {name: p.astype(np.float64) for name, p in state.parameters.items()}
    batch = windows(text_tokens, MODEL.sequence)
    heads = MODEL.heads, MODEL.kv_heads
    loss, count = Llama(parameters, *heads, window=MODEL.window).loss(*batch)
    all_seen, _ = Llama(parameters, *heads).loss(*batch)
    # Else the window would not show.
    assert abs(all_seen - loss) / count > 1e-4
    for name in ("serial", "2x2", "1x3"):
        flags = ("--data", text, "--load", state.folder, "--json")
        found = json.loads(tools.run("optimus-run", "eval", libraries(name), *flags))
        # As test_llama's.
        assert found["loss"] == pytest.approx(loss / count, abs=1e-5), name


@pytest.mark.variants
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "serial"])
def test_layouts_train_alike(trained, name):
    def read(layout):
        return losses(read_log(trained(layout).with_suffix(".json")))

    assert len(read(name)) == STEPS
    assert read(name) == pytest.approx(read("serial"), rel=1e-4)


def test_gradients_of_libraries_agree(tools, libraries, text, trained):
    flags = ["--data", text, "--json", "--load", trained("serial")]
    command = ["verify", libraries("serial"), libraries("2x2"), *flags]
    report = json.loads(tools.run("optimus-run", *command))
    assert len(report["tensors"]) == 1 + len(MODEL.parameter_shapes())
    assert all(tensor["same"] for tensor in report["tensors"])


def test_a_window_of_the_sequence_is_none(tools, tmp_path):
    """The compiled commands are the same."""

    def commands(model):
        path = tmp_path / "commands.mlir"
        flags = ["--compile-to", "exec", "-o", path]
        tools.run("optimus-compile", source(tmp_path / "model.mlir", model), *flags)
        lines = path.read_text().splitlines()
        return [line for line in lines if "exec.attention" in line]

    without = commands(MODEL._replace(window=None))
    assert without and commands(MODEL._replace(window=96)) == without
    assert commands(MODEL) != without


@pytest.mark.parametrize("mesh, strategy", [("row:2,col:2", "summa"), ("row:1,col:3", "megatron")])
def test_meshes_mean_what_numpy_says(tools, tmp_path, mesh, strategy):
    """In f64, heads and batches padded."""
    model = LlamaModel(
        2, hidden=16, heads=4, kv_heads=2, ffn=22, sequence=7, vocabulary=19, batch=3, window=3
    )
    lowered = tmp_path / "compiled.mlir"
    flags = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    tools.run("optimus-compile", source(tmp_path / "model.mlir", model), *flags, "-o", lowered)
    parameters, batch = draw_parameters(model), draw_batch(model)
    arguments = {**parameters, **batch._asdict()}
    results = Interpreter(tools, tmp_path).run(lowered, "grad_step", arguments)
    numpy = Llama(parameters, model.heads, model.kv_heads, window=model.window)
    loss, _, gradients = numpy.loss_and_gradients(*batch)
    expect_gradients(results, loss, gradients, TOLERANCE)

