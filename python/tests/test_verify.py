# ===- test_verify.py - Two layouts of one model --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-run verify`: bounds that hold and are not idle."""

import json

import numpy as np
import pytest

from selection import covering
from tools import BertModel, LlamaModel, Model

SHAPE = dict(hidden=48, heads=6, sequence=16, vocabulary=256, batch=6)


def models(layers):
    return [
        Model(layers=layers, **SHAPE),
        BertModel(layers=layers, ffn=100, **SHAPE),
        LlamaModel(layers=layers, kv_heads=3, ffn=100, **SHAPE),
    ]


CASES = [
    *[(model, "row:2,col:2", "summa") for model in models(2)],
    *[
        pytest.param(model, "row:2,col:2", "summa", marks=pytest.mark.long if i else [])
        for i, model in enumerate(models(12))
    ],
    *[(model, "data:2,row:1,col:2", "megatron-sp") for model in models(2)],
]


def verify(tools, first, second, data, *flags):
    result = tools.call(
        *("optimus-run", "verify", first, second, "--data", data, "--json"),
        *("--threads-per-rank", 1, *flags),
    )
    return result, json.loads(result.stdout)["tensors"]


@pytest.mark.rotates
@pytest.mark.parametrize(
    "model, mesh, strategy",
    CASES,
    ids=lambda part: "%s-%d" % (part.KIND, part[0]) if hasattr(part, "KIND") else part,
)
def test_bounds_hold_and_are_near(tools, text, tmp_path, model, mesh, strategy):
    serial, other = tools.library(model), tools.library(model, mesh, strategy)
    flags = ["--lr", 3e-3, "--threads-per-rank", 1, "--save", tmp_path / "at"]
    tools.train(serial, text, 10, *flags, log=tmp_path / "log")
    for start in ([], ["--load", tmp_path / "at"]):
        result, tensors = verify(tools, serial, other, text, *start)
        assert result.returncode == 0, result.stderr
        assert all(tensor["same"] for tensor in tensors)
        # A single number may happen to come out alike: the loss is let off.
        used = np.array([tensor["of_bound"] for tensor in tensors[1:]])
        assert used.max() < 0.2
        assert np.median(used) > 1e-3 and (used > 1e-4).mean() > 0.99


@pytest.mark.rotates
@pytest.mark.parametrize(
    "flags, mesh",
    covering(
        [
            ["--move", "whole"],
            ["--panels", 12],
            ["--move", "auto"],
            ["--layout", "h.*.mlp.c_proj.weight=row,col", "--layout", "h.?.mlp.c_fc.weight=col,row"],
        ],
        ["row:2,col:2", "row:2,col:3"],
    ),
    ids=lambda part: " ".join(map(str, part)) if isinstance(part, list) else part,
)
def test_forced_movements_give_the_same(tools, text, mesh, flags):
    model = Model(layers=2, **SHAPE)
    ordinary = tools.library(model, mesh, "summa")
    forced = tools.library(model, mesh, "summa", *flags)
    assert forced.read_bytes() != ordinary.read_bytes()
    result, _ = verify(tools, tools.library(model), forced, text)
    assert result.returncode == 0, result.stderr


def test_a_gradient_of_rounding_alone_is_seen_to_be_one(tools, text):
    """Scores move as a whole with the bias of BERT's keys: softmax is blind to it."""
    model = models(2)[1]
    libraries = tools.library(model), tools.library(model, "row:2,col:2", "summa")
    _, tensors = verify(tools, *libraries, text)
    amplified = {tensor["name"]: tensor["amplification"] for tensor in tensors}
    for name, factor in amplified.items():
        assert (factor > 1e4) == name.endswith("key.bias"), name


def test_the_table_says_what_is_compared(tools, text):
    model = models(2)[0]
    libraries = tools.library(model), tools.library(model, "row:2,col:2", "summa")
    table = tools.run("optimus-run", "verify", *libraries, "--data", text)
    header = next(line for line in table.splitlines() if "tensor" in line)
    for column in ("max |a-b|", "|a-b|", "bound", "of bound", "amplified"):
        assert column in header
