# ===- test_mixed.py - Layers laid out one by one -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Annotations in a program win over its strategy, a layer at a time."""

import os
import re

import numpy as np
import pytest

from gpt2_reference import Hyper
from interpreter import (
    Interpreter,
    draw_batch,
    draw_parameters,
    relative_error,
    scalars,
)
from shell_examples import run_shell, shell_blocks
from test_gradients import STEP, TOLERANCE
from tools import REPOSITORY, Model, losses

# Heads, hidden and vocabulary do not divide by 3, nor does the batch by 2.
MODEL = Model(2, hidden=10, heads=5, sequence=4, vocabulary=13, batch=5, ffn=9)
# Megatron's: columns before the activation, rows after it.
ONE_DIMENSIONAL = {
    "attn.c_attn.weight": '{}, {}, {"col"}, {}',
    "attn.c_proj.weight": '{"col"}, {}, {}',
    "mlp.c_fc.weight": '{}, {"col"}',
    "mlp.c_proj.weight": '{"col"}, {}',
}


def sharding(dims):
    return "#optimus.sharding<@mesh, [%s]>" % dims


def annotate_weights(text, layer):
    """Lays the weights of a layer out as Megatron does."""
    for name, dims in ONE_DIMENSIONAL.items():
        param = 'optimus.param = "h.%d.%s"' % (layer, name)
        assert param in text
        text = text.replace(param, "optimus.sharding = %s, %s" % (sharding(dims), param))
    return text


def annotate_residual(text):
    """Keeps the residual stream of the last layer whole on every column."""
    lines = text.split("\n")
    body = next(i for i, line in enumerate(lines) if "optimus.embedding" in line)
    begin = next(i for i in range(body, len(lines)) if "%h1_ln_1_weight" in lines[i])
    end = next(i for i in range(body, len(lines)) if "%ln_f_weight" in lines[i])
    rows = sharding('{"row"}, {}, {}')
    annotated = 0
    for i in range(begin, end):
        results = [rows]
        if "optimus.layer_norm" in lines[i]:
            results += 2 * [sharding('{"row"}, {}')]
        if re.search(r"-> \(?tensor<5x4x10xf32>", lines[i]):
            operation, types = lines[i].split(" : (", 1)
            given = operation.removesuffix("}") + ", " if operation.endswith("}") else operation + " {"
            lines[i] = "%soptimus.shardings = [%s]} : (%s" % (given, ", ".join(results), types)
            annotated += 1
    assert annotated >= 6
    return "\n".join(lines)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", ["row:2,col:2", "row:2,col:3", "data:2,row:1,col:2"])
@pytest.mark.parametrize("strategy", ["summa", "summa-paper", "megatron-sp"])
@pytest.mark.parametrize("whole_rows", [False, True], ids=["weights", "activations"])
def test_a_mix_means_the_serial_program(tools, tmp_path, mesh, strategy, whole_rows):
    text = tools.program(MODEL).read_text()
    mixed = annotate_weights(text, layer=1)
    if whole_rows:
        mixed = annotate_residual(mixed)
    source, program = tmp_path / "mixed.mlir", tmp_path / "compiled.mlir"
    source.write_text(mixed)
    options = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    tools.run("optimus-compile", source, *options, "-o", program)
    interpreter = Interpreter(tools, tmp_path)
    # epsilon: see test_three_training_steps_equal_numpy.
    arguments = {
        **draw_parameters(MODEL),
        **draw_batch(MODEL)._asdict(),
        **scalars(1, 0.01, Hyper(epsilon=1e-3)),
    }
    found = interpreter.run(program, "train_step", arguments)
    serial = interpreter.lower(MODEL, *STEP)
    expected = interpreter.run(serial, "train_step", arguments)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert relative_error(found[key], value) < TOLERANCE, key


@pytest.fixture(scope="module")
def example(tools, text, tmp_path_factory):
    """Where the commands of docs/strategies.md were run, as they stand there."""
    page = (REPOSITORY / "docs" / "strategies.md").read_text()
    section = page.split("## Mixing layers", 1)[1].split("\n## ", 1)[0]
    (block,) = shell_blocks(section)
    assert "optimus.models" in block.shown and "verify" in block.shown
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "corpus.txt").write_bytes(text.read_bytes())
    output = run_shell(
        block.shown,
        folder,
        PATH="%s:%s" % (tools.binaries.resolve(), os.environ["PATH"]),
        PYTHONPATH=str(REPOSITORY / "python"),
    )
    assert "DIFFERS" not in output and "same" in output
    return folder


def test_the_example_lays_one_layer_out_otherwise(tools, example):
    parameters = tools.buffers(example / "mixed.so", "parameter")
    shards = {param["name"]: param["sharding"] for param in parameters}
    assert shards["h.0.mlp.c_fc.weight"] == [["row"], ["col"]]
    assert shards["h.1.mlp.c_fc.weight"] == [[], ["col"]]
    assert shards["h.0.mlp.c_proj.weight"] == [["col"], ["row"]]
    assert shards["h.1.mlp.c_proj.weight"] == [["col"], []]
    # To the reader, layers that are alike are one row.
    table = tools.run("optimus-run", "inspect", example / "mixed.so")
    for name in ("h.0.mlp.c_fc.weight", "h.1.mlp.c_fc.weight", "h.{0..1}.mlp.c_fc.bias"):
        assert "\n  %s " % name in table


def test_the_example_trains_as_the_serial_program(tools, text, tmp_path, example):
    flags = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]
    logs = [
        tools.train(example / (name + ".so"), text, 20, *flags, log=tmp_path / name)
        for name in ("serial", "mixed")
    ]
    # As in test_meshes.
    np.testing.assert_allclose(losses(logs[1]), losses(logs[0]), rtol=1e-4)
    norms = [[line["grad_norm"] for line in log] for log in logs]
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-2)
