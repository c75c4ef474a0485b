# ===- test_packing.py - Weights in the layout of products -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Weights that commands pack: planned for a processor that gains by it, and run on
any. Packing changes the routes of products, so numbers agree to rounding."""

import json
import os
import re

import numpy as np
import pytest

from test_hidden_device import few, hide, use
from tools import LlamaModel, Model

SHAPE = dict(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
CASES = {
    "gpt2-serial": (Model(**SHAPE), None, "serial"),
    "gpt2-1x2": (Model(**SHAPE), "row:1,col:2", "megatron"),
    "llama-1x2": (LlamaModel(**SHAPE, kv_heads=2, ffn=24), "row:1,col:2", "megatron-sp"),
}


def compile_packed(tools, folder, model, mesh, strategy):
    """Commands and memory are for a processor with AVX-512, kernels for this one."""
    placed, library = folder / "placed.mlir", folder / "packed.so"
    flags = ["--strategy", strategy, *(["--mesh", mesh] if mesh else [])]
    flags += ["--mcpu=x86-64-v4", "--compile-to=place", "-o", placed]
    tools.run("optimus-compile", tools.program(model), *flags)
    tools.run("optimus-compile", placed, "--compile-from=place", "-o", library)
    return library


def commands(tools, library):
    flags = ["--commands", "--function", "train_step"]
    return tools.run("optimus-run", "inspect", library, *flags).splitlines()


def train_step(tools, library):
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    return next(f for f in manifest["functions"] if f["name"] == "train_step")


@pytest.mark.variants
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_weights_as_they_lie(tools, few, tmp_path, case):
    packed = compile_packed(tools, tmp_path, *CASES[case])
    assert any(" packed_b " in line for line in commands(tools, packed))
    plain = tools.library(*CASES[case], "--mcpu=x86-64-v3")
    assert not any("packed" in line for line in commands(tools, plain))
    expected = use(tools, plain, few, tmp_path / "plain", dict(os.environ))
    found = use(tools, packed, few, tmp_path / "packed", dict(os.environ))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    hidden = use(tools, packed, few, tmp_path / "hidden", hide(tools, 1))
    assert hidden[:2] == found[:2]


def test_a_weight_is_packed_once_a_layout(tools, tmp_path):
    lines = commands(tools, compile_packed(tools, tmp_path, *CASES["gpt2-serial"]))
    packs = [line for line in lines if re.search(r": pack \d", line)]
    sources = [re.search(r"pack (.*) write", line)[1] for line in packs]
    # Of a layer's four: forward with a bias, and backward transposed; and the
    # table of tokens for the logits.
    assert len(sources) == len(set(sources)) == 2 * 4 * 2 + 1


def test_memory_of_packed_weights_is_planned_and_used_again(tools, tmp_path):
    library = compile_packed(tools, tmp_path, *CASES["gpt2-serial"])
    sizes = [
        4 * int(re.search(r"write dst=arena0\[\d+\]:(\d+)f32", line)[1])
        for line in commands(tools, library)
        if re.search(r": pack \d", line)
    ]
    plain = train_step(tools, tools.library(*CASES["gpt2-serial"], "--mcpu=x86-64-v3"))
    packed = train_step(tools, library)
    added = packed["arena_bytes"] - plain["arena_bytes"]
    assert added < sum(sizes) / 2
