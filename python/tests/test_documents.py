# ===- test_documents.py - Documents in one window ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A window of several documents means what they mean one by one."""

import json

import numpy as np
import pytest

from gpt2_reference import Gpt2
from interpreter import Interpreter, draw_batch, draw_parameters, expect_gradients
from llama_reference import Llama
from optimus.models.__main__ import program
from selection import covering
from test_gradients import STEP, TOLERANCE
from tools import (
    EMULATED,
    LlamaModel,
    Model,
    call,
    command_line,
    losses,
    read_log,
    succeed,
)

GPT = Model(2, hidden=12, heads=3, sequence=7, vocabulary=19, batch=3)
LLAMA = LlamaModel(
    2, hidden=16, heads=4, kv_heads=2, ffn=22, sequence=7, vocabulary=19, batch=3
)
MODELS = {"gpt2": GPT, "llama": LLAMA, "window": LLAMA._replace(window=2)}
# Of each window of the batch, the lengths of its documents.
DOCUMENTS = ((7,), (1, 2, 4), (3, 3, 1))
POSITIONS = np.array([[i for length in row for i in range(length)] for row in DOCUMENTS])
LAYOUTS = [
    ("row:2,col:2", "summa"),
    ("row:1,col:3", "megatron"),
    ("row:2,col:2", "megatron-sp"),
    ("data:3", "data"),
    ("row:3,col:2", "summa-paper"),
]


@pytest.fixture
def interpreter(tools, tmp_path):
    return Interpreter(tools, tmp_path)


def build(path, model):
    """The program of a model that keeps documents apart."""
    flags = [*command_line(model), "--within-documents"]
    _, text = program([model.KIND, *flags])
    path.write_text(text)
    return path


def one_by_one(model, parameters, batch):
    """Loss and gradients, each document a window of its own."""
    numpy = (
        Gpt2(parameters, model.heads)
        if model.KIND == "gpt2"
        else Llama(parameters, model.heads, model.kv_heads, window=model.window)
    )
    total, gradients = 0.0, {name: np.zeros_like(p) for name, p in parameters.items()}
    for row, lengths in enumerate(DOCUMENTS):
        ends = np.cumsum(lengths)
        for begin, end in zip(ends - lengths, ends):
            of = np.s_[row : row + 1, begin:end]
            loss, _, found = numpy.loss_and_gradients(batch.tokens[of], batch.targets[of])
            total += loss
            for name, value in found.items():
                # Positions that a shorter window lacks have no gradient.
                gradients[name][tuple(map(slice, value.shape))] += value
    return total, gradients


def expect_documents_alone(interpreter, lowered, model):
    parameters, batch = draw_parameters(model), draw_batch(model)
    arguments = {**parameters, **batch._asdict(), "positions": POSITIONS}
    results = interpreter.run(lowered, "grad_step", arguments)
    loss, gradients = one_by_one(model, parameters, batch)
    expect_gradients(results, loss, gradients, TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_documents_are_apart(tools, tmp_path, interpreter, name):
    model = MODELS[name]
    source = build(tmp_path / "model.mlir", model)
    lowered = tmp_path / "lowered.mlir"
    tools.run("optimus-opt", source, *STEP, "--optimus-fuse", "-o", lowered)
    expect_documents_alone(interpreter, lowered, model)


@pytest.mark.parametrize("mesh, strategy, name", covering(LAYOUTS, MODELS))
def test_they_are_on_every_mesh(tools, tmp_path, interpreter, mesh, strategy, name):
    model = MODELS[name]
    source = build(tmp_path / "model.mlir", model)
    lowered = tmp_path / "compiled.mlir"
    options = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    tools.run("optimus-compile", source, *options, "-o", lowered)
    expect_documents_alone(interpreter, lowered, model)


# ------------------------------------------------------------------ compiled

WINDOW, DOCUMENT = 48, 16
LONG = LlamaModel(
    2, hidden=32, heads=4, kv_heads=2, ffn=44, sequence=WINDOW, vocabulary=64, batch=4
)
END = 63


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Documents of 16 tokens, the last of which ends them."""
    random = np.random.default_rng(4)
    documents = random.integers(0, END, (400, DOCUMENT), dtype=np.uint16)
    documents[:, -1] = END
    path = tmp_path_factory.mktemp("data") / "documents.bin"
    path.write_bytes(documents.tobytes())
    return path


@pytest.fixture(scope="module")
def libraries(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    source = build(folder / "long.mlir", LONG)
    made = {"short": folder / "short.so"}
    short = tools.program(LONG._replace(sequence=DOCUMENT))
    tools.run("optimus-compile", short, "-o", made["short"])
    for name, flags in {
        "serial": [],
        "summa": ["--mesh", "row:2,col:2"],
        "emulated": EMULATED,
    }.items():
        made[name] = folder / (name + ".so")
        tools.run("optimus-compile", source, *flags, "-o", made[name])
    return made


@pytest.mark.variants
@pytest.mark.parametrize("mesh", [[], ["--mesh", "row:2,col:2"]], ids=["serial", "2x2"])
def test_learned_positions_are_fewer_than_tokens(tools, tmp_path, mesh):
    """The table of positions is no table of tokens."""
    source = build(tmp_path / "model.mlir", GPT)
    flags = [*mesh, "--compile-to", "llvm", "-o", tmp_path / "lowered.mlir"]
    tools.run("optimus-compile", source, *flags)


def evaluate(tools, library, tokens, checkpoint, *flags):
    options = ["--data", tokens, "--load", checkpoint, "--json", *flags]
    return json.loads(tools.run("optimus-run", "eval", library, *options))["loss"]


def test_a_trained_model_sees_documents_alone(tools, libraries, tokens, tmp_path):
    """Windows of three documents have the loss of three windows of one: all tokens
    of the file are in both, since 48 divides it."""
    end, checkpoint = ["--document-end", END], tmp_path / "trained"
    serial = ["train", libraries["serial"], "--data", tokens, "--steps", 12, "--lr", 3e-3]
    tools.run("optimus-run", *serial, *end, "--save", checkpoint)
    alone = evaluate(tools, libraries["short"], tokens, checkpoint)
    # Sums of losses in f32, of logits below 8: 2^-24 times the terms' magnitude.
    for name in ("serial", "summa"):
        together = evaluate(tools, libraries[name], tokens, checkpoint, *end)
        assert together == pytest.approx(alone, rel=1e-5)


@pytest.mark.variants
@pytest.mark.parametrize("name", ["summa", "emulated"])
def test_layouts_train_alike(tools, libraries, tokens, tmp_path, name):
    def train(library):
        log = tmp_path / "log"
        options = ["--data", tokens, "--steps", 6, "--lr", 3e-3, "--document-end", END]
        with_log = [*options, "--log-json", log]
        command = tools.command("optimus-run", "train", libraries[library], *with_log)
        succeed(call(command, env=tools.fake_gpu()))
        return losses(read_log(log))

    assert train(name) == pytest.approx(train("serial"), rel=1e-4)


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    "library, flags, message",
    [
        ("serial", [], "keeps documents apart: expected --document-end"),
        ("short", ["--document-end", 1], "sees all of a sequence"),
        ("serial", ["--document-end", 64], "expected a token from 0 to 63"),
        ("serial", ["--document-end", -1], "expected a token from 0 to 63"),
    ],
)
@pytest.mark.parametrize("command", ["train", "eval"])
def test_what_ends_a_document_is_said(
    tools, libraries, tokens, command, library, flags, message
):
    more = ["--steps", 1] if command == "train" else []
    options = ["--data", tokens, *more, *flags]
    result = tools.call("optimus-run", command, libraries[library], *options)
    assert result.returncode == 1
    assert message in result.stderr


@pytest.mark.parametrize("end", [None, 64, -1])
def test_a_session_says_what_ends_a_document(optimus, libraries, end):
    message = "expected document_end with" if end is None else "document_end %d: expected a" % end
    with pytest.raises(ValueError, match=message):
        optimus.Session(libraries["serial"], document_end=end)
