# ===- test_add_an_op.py - An operation that the compiler does not know ---===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""GPT-2 with the squared ReLU of test/lib/SquaredRelu in the place of GELU:
what docs/add-an-op.md promises of an elementwise operation from outside."""

import json

import numpy as np
import pytest

import gpt2_reference
from gpt2_reference import AdamW, Gpt2, sequential_batch
from tools import REPOSITORY, Model, losses

# Weights so large that the activation bends.
MODEL = Model(
    2, hidden=24, heads=6, sequence=16, vocabulary=256, batch=6, init_std=0.2
)
STEPS, LR = 6, 3e-3
LAYOUTS = {
    "serial": [],
    "summa": ["--mesh", "row:2,col:3", "--strategy", "summa"],
    "megatron": ["--mesh", "row:1,col:2", "--strategy", "megatron"],
}


def squared_relu(x):
    positive = np.maximum(x, 0)
    return positive**2, 2 * positive


@pytest.fixture(scope="module")
def libraries(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    gelu, relu = "optimus.gelu ", "example.squared_relu "
    text = tools.program(MODEL).read_text()
    assert text.count(gelu) == MODEL.layers
    program = folder / "program.mlir"
    program.write_text(text.replace(gelu, relu))
    return lambda name, *flags: compiled(tools, program, folder / name, *flags)


def compiled(tools, program, library, *flags):
    tools.run("optimus-compile-squared-relu", program, *flags, "-o", library)
    return library


@pytest.mark.variants
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_trains_as_numpy_does(
    tools, libraries, text, text_tokens, tmp_path, monkeypatch, layout
):
    monkeypatch.setattr(gpt2_reference, "_gelu", squared_relu)
    library = libraries(layout + ".so", *LAYOUTS[layout])
    initial = tools.initial(library, text, tmp_path / "initial")
    flags = ("--lr", LR, "--seed", 1, "--threads-per-rank", 1)
    log = tools.train(library, text, STEPS, *flags, log=tmp_path / "log")
    parameters = {name: p.astype(np.float64) for name, p in initial.parameters.items()}
    trainer = AdamW(parameters, MODEL.heads)
    curve = np.array([
        trainer.step(*sequential_batch(text_tokens, MODEL.sequence, MODEL.batch, step), LR)
        for step in range(STEPS)
    ])
    # As in test_training.py: f32 sums in another order, and updates whose sign
    # is lost in rounding. The losses depend on every update before them.
    np.testing.assert_allclose(losses(log), curve[:, 0], rtol=1e-4)
    norms = [line["grad_norm"] for line in log]
    np.testing.assert_allclose(norms, curve[:, 1], rtol=1e-3)


def test_the_reference_would_tell_gelu_apart(tools, libraries, text, text_tokens, tmp_path):
    initial = tools.initial(libraries("gelu.so"), text, tmp_path / "initial")
    parameters = {name: p.astype(np.float64) for name, p in initial.parameters.items()}
    batch = sequential_batch(text_tokens, MODEL.sequence, MODEL.batch, 0)
    with_gelu, count = Gpt2(parameters, MODEL.heads).loss(*batch)
    log = tools.train(libraries("gelu.so"), text, 1, "--seed", 1, log=tmp_path / "log")
    assert abs(losses(log)[0] - with_gelu / count) > 1e-2


@pytest.mark.variants
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bf16_is_f32_within_its_bounds(tools, libraries, text, layout):
    narrow = ("--precision", "bf16")
    result = json.loads(
        tools.run(
            *("optimus-run", "verify", "--json", "--data", text),
            *(libraries("f32.so"), libraries("bf16.so", *narrow, *LAYOUTS[layout])),
        )
    )
    assert result["tensors"] and all(tensor["same"] for tensor in result["tensors"])


def test_it_takes_less_than_sixty_lines():
    folder = REPOSITORY / "test/lib/SquaredRelu"
    lines = [
        line
        for name in ("SquaredRelu.td", "SquaredRelu.cpp")
        for line in (folder / name).read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("//")
    ]
    assert len(lines) < 60
