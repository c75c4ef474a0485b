# ===- test_mixed_precision.py - Programs whose activations are bf16 ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `--precision bf16` changes, and how far results may move by it.

A value that is stored in bf16 is off by up to 2^-8 of itself. N of them on the
way to a gradient, each passed on as it is and independent of the others, put
that off by 2^-8 sqrt(N) of its norm; 4 is the room for errors that grow on
their way (docs/equivalence.md has the derivation).
"""

import math
import re

import numpy as np
import pytest

from interpreter import Interpreter, draw_batch, draw_parameters
from tools import BertModel, LlamaModel, Model

MODELS = {
    "gpt2": Model(2, hidden=12, heads=6, sequence=4, vocabulary=24, batch=12),
    "gpt2-padded": Model(
        2, hidden=10, heads=5, sequence=3, vocabulary=13, batch=5, ffn=9, dropout=0.3
    ),
    "bert": BertModel(2, 12, 6, sequence=5, vocabulary=24, batch=12),
    "llama": LlamaModel(2, 12, 6, 3, ffn=20, sequence=4, vocabulary=24, batch=12),
}
LAYOUTS = [
    ("row:1,col:1", "serial"),
    ("row:2,col:3", "summa"),
    ("row:2,col:2", "summa-paper"),
    ("row:1,col:4", "megatron"),
    ("data:2,row:1,col:2", "megatron-sp"),
]
ROOM = 4


def narrow_values(text, function):
    """How many results of operations of a function are bf16."""
    body = re.search(r"func\.func @%s\(.*?\n  }" % function, text, re.DOTALL).group()
    lines = [line for line in body.split("\n") if " = " in line]
    return sum(line.rsplit(":", 1)[1].split("->")[-1].count("xbf16") for line in lines)


def compiled(tools, tmp_path, name, *flags):
    program = tmp_path / ("%s%d.mlir" % (name, len(list(tmp_path.iterdir()))))
    tools.run(
        "optimus-compile", tools.program(MODELS[name]), *flags, "--compile-to", "fuse", "-o", program
    )
    return program


def arguments(name):
    model = MODELS[name]
    # Small enough that a softmax does not turn a rounding error into another token.
    return {**draw_parameters(model, spread=0.2), **draw_batch(model)._asdict()}


def relative(found, expected):
    scale = np.linalg.norm(expected)
    return np.linalg.norm(found - expected) / scale if scale else np.linalg.norm(found)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mesh, strategy", LAYOUTS)
def test_gradients_are_those_of_f32_but_for_rounding(tools, tmp_path, name, mesh, strategy):
    interpreter = Interpreter(tools, tmp_path)
    narrow = compiled(
        tools, tmp_path, name, "--precision", "bf16", "--mesh", mesh, "--strategy", strategy
    )
    wide = compiled(tools, tmp_path, name)
    found = interpreter.run(narrow, "grad_step", arguments(name))
    expected = interpreter.run(wide, "grad_step", arguments(name))
    count = narrow_values(narrow.read_text(), "grad_step")
    # Each layer has a norm, a product, an activation and their gradients at least.
    assert count >= 10 * MODELS[name].layers
    bound = ROOM * 2**-8 * math.sqrt(count)
    total = math.sqrt(sum(np.sum(value**2) for value in expected.values()))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        # A gradient that is nothing but rounding, as that of BERT's keys' bias,
        # is small beside all of them.
        off = np.linalg.norm(found[key] - value)
        assert off <= bound * max(np.linalg.norm(value), 1e-2 * total), key


def test_parameters_states_and_results_stay_f32(tools, tmp_path):
    text = compiled(tools, tmp_path, "gpt2", "--precision", "bf16").read_text()
    for function in ("train_step", "eval_step", "grad_step"):
        signature = re.search(r"func\.func @%s\(.*\{$" % function, text, re.MULTILINE).group()
        assert "f32" in signature and "bf16" not in signature, function


def test_f32_is_what_it_was(tools, tmp_path):
    one = compiled(tools, tmp_path, "gpt2").read_text()
    other = compiled(tools, tmp_path, "gpt2", "--precision", "f32").read_text()
    assert one == other
    assert "bf16" not in one


def test_a_precision_that_is_none(tools, tmp_path):
    failed = tools.call(
        "optimus-compile", tools.program(MODELS["gpt2"]), "--precision", "fp8", "-o", tmp_path / "x.so"
    )
    assert failed.returncode == 1
    assert "--precision: unknown precision 'fp8'; known are bf16, f32" in failed.stderr
