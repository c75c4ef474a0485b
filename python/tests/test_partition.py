# ===- test_partition.py - Partitioned programs against serial ones -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A program for a mesh means what the serial one means, in f64.

All ranks run in the interpreter, which besides holds every operation against
its meaning on whole tensors. Sums run in another order than serially, and the
bound is that of test_gradients.
"""

import numpy as np
import pytest

from gpt2_reference import Hyper
from interpreter import LAYOUTS, Interpreter, SerialResults
from selection import covering
from tools import BertModel, Model

TOLERANCE = 1e-10

MODELS = {
    # Most dimensions divide most meshes.
    "even": Model(2, hidden=12, heads=6, sequence=4, vocabulary=24, batch=12),
    # Heads, vocabulary, hidden, feed-forward width and batch all need padding.
    "padded": Model(2, hidden=10, heads=5, sequence=3, vocabulary=13, batch=5, ffn=9),
    # Rows of 3 to 10 elements begin anywhere in a group of draws.
    "dropout": Model(
        1, hidden=10, heads=5, sequence=3, vocabulary=13, batch=5, ffn=9, dropout=0.3
    ),
    "bert": BertModel(2, 12, 6, sequence=5, vocabulary=24, batch=12),
    "bert-padded": BertModel(
        1, 10, 5, sequence=3, vocabulary=13, batch=5, ffn=9, dropout=0.3
    ),
    # Some ranks of the larger meshes hold nothing but padding.
    "tiny": Model(1, hidden=3, heads=1, sequence=2, vocabulary=2, batch=1, ffn=2),
}
# epsilon: see test_three_training_steps_equal_numpy.
HYPER = Hyper(epsilon=1e-3)


@pytest.fixture(scope="module")
def serial_results(tools, tmp_path_factory):
    return SerialResults(tools, MODELS, HYPER, tmp_path_factory)


def scale_of(key, expected):
    """What rounding of a result is in proportion to."""
    # Softmax does not see what adds to all of a query's scores: BERT's keys'
    # bias has gradient 0, but for rounding. Its scale is that of the queries'.
    return np.abs(expected[key.replace("self.key.bias", "self.query.bias")]).max()


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy, name", covering(LAYOUTS, MODELS))
def test_every_mesh_means_the_serial_program(
    tools, tmp_path, serial_results, mesh, strategy, name
):
    interpreter = Interpreter(tools, tmp_path)
    # What is compiled, up to its last phase on tensors.
    program = tmp_path / "compiled.mlir"
    options = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    source = tools.program(MODELS[name])
    tools.run("optimus-compile", source, *options, "-o", program)
    # The first step's exp_avg is the gradient times a number.
    for function in ("train_step", "eval_step"):
        results = interpreter.run(program, function, serial_results.arguments(name))
        expected = serial_results(name, function)
        assert results.keys() == expected.keys()
        for key, value in expected.items():
            off = np.abs(results[key] - value).max()
            assert off <= TOLERANCE * scale_of(key, expected), (function, key)


@pytest.mark.parametrize(
    "mesh, strategy, policy, name",
    covering(
        [
            ("row:1,col:1", "serial"),
            ("row:2,col:3", "summa"),
            ("row:1,col:2", "megatron-sp"),
            ("data:2,row:2,col:2", "summa-paper"),
        ],
        ["layer", "attention"],
        ["even", "padded", "bert"],
    ),
)
def test_what_is_made_again_is_the_same(
    tools, tmp_path, serial_results, mesh, strategy, policy, name
):
    interpreter = Interpreter(tools, tmp_path)
    program = tmp_path / "compiled.mlir"
    options = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    source = tools.program(MODELS[name])
    options += ["--recompute", policy]
    tools.run("optimus-compile", source, *options, "-o", program)
    assert "optimus.recomputed" in program.read_text()
    results = interpreter.run(program, "train_step", serial_results.arguments(name))
    expected = serial_results(name, "train_step")
    for key, value in expected.items():
        off = np.abs(results[key] - value).max()
        assert off <= TOLERANCE * scale_of(key, expected), key


def test_a_strategy_cuts_what_it_should(tools, tmp_path):
    """Guards the test above: it would also pass where nothing is sharded."""
    interpreter = Interpreter(tools, tmp_path)
    shard = "--optimus-shard=mesh=row:2,col:2 strategy=summa"
    program = interpreter.lower(MODELS["padded"], *SerialResults.PASSES, shard, "--optimus-partition")
    text = program.read_text()
    for op in ("matmul", "all_gather", "reduce_scatter", "head_loss_grad"):
        assert "ccl." + op in text
