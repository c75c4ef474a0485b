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

import json
import math
import os
import pathlib
import re

import numpy as np
import pytest

from gpt2_reference import sequential_batch, windows
from interpreter import Interpreter, draw_batch, draw_parameters, strip
from philox import Dropout, masked
from selection import covering
from tools import (
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    losses,
    mpirun,
    read_log,
    succeed,
)

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
NARROW = ("--precision", "bf16")


def narrow_values(text, function):
    """How many results of operations of a function are bf16."""
    body = re.search(r"func\.func @%s\(.*?\n  }" % function, text, re.DOTALL).group()
    lines = [line for line in body.split("\n") if " = " in line]
    return sum(line.rsplit(":", 1)[1].split("->")[-1].count("xbf16") for line in lines)


def compiled(tools, tmp_path, name, *flags, phase="fuse"):
    program = tmp_path / ("%s%d.mlir" % (name, len(list(tmp_path.iterdir()))))
    source = tools.program(MODELS[name])
    tools.run("optimus-compile", source, *flags, "--compile-to", phase, "-o", program)
    return program


def arguments(name):
    model = MODELS[name]
    # Small enough that a softmax does not turn a rounding error into another token.
    return {**draw_parameters(model, spread=0.2), **draw_batch(model)._asdict()}


def relative(found, expected):
    scale = np.linalg.norm(expected)
    return np.linalg.norm(found - expected) / scale if scale else np.linalg.norm(found)


@pytest.mark.rotates
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mesh, strategy", LAYOUTS)
def test_gradients_are_those_of_f32_but_for_rounding(tools, tmp_path, name, mesh, strategy):
    interpreter = Interpreter(tools, tmp_path)
    narrow = compiled(
        tools, tmp_path, name, *NARROW, "--mesh", mesh, "--strategy", strategy
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
        # A gradient of nothing but rounding, as of the bias of BERT's keys, is small
        # beside all of them.
        off = np.linalg.norm(found[key] - value)
        assert off <= bound * max(np.linalg.norm(value), 1e-2 * total), key


def test_parameters_states_and_results_stay_f32(tools, tmp_path):
    text = compiled(tools, tmp_path, "gpt2", *NARROW).read_text()
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
    assert "--precision: unknown precision 'fp8'; known are f32, bf16" in failed.stderr


TRAINED = {
    "gpt2": Model(2, hidden=32, heads=4, sequence=16, vocabulary=256, batch=8, dropout=0.1),
    "bert": BertModel(2, 32, 4, sequence=16, vocabulary=256, batch=8),
    "llama": LlamaModel(2, 32, 4, 2, ffn=48, sequence=16, vocabulary=256, batch=8),
}


def multiplies_bf16():
    """Whether oneDNN does products of bf16 on this processor."""
    return " avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


@pytest.mark.rotates
@pytest.mark.parametrize("instructions", ["DEFAULT", "AVX2"])
@pytest.mark.parametrize("name", TRAINED)
def test_it_learns_as_in_f32(tools, tmp_path, text, name, instructions):
    def train(*flags):
        path = tools.library(TRAINED[name], None, "serial", *flags)
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        command = tools.train_command(path, text, 60, "--lr", 3e-3, log=log)
        run = call(command, env=dict(os.environ, ONEDNN_MAX_CPU_ISA=instructions))
        succeed(run)
        return losses(read_log(log)), run.stderr

    found, said = train(*NARROW)
    expected, before = train()
    # The first loss is that of the same parameters, but for rounding.
    assert abs(found[0] / expected[0] - 1) < 2**-8
    assert expected[-1] < 0.75 * expected[0]
    # Steps drift apart; what they learn does not.
    assert abs(np.mean(found[-10:]) / np.mean(expected[-10:]) - 1) < 0.01
    is_slow = instructions == "AVX2" or not multiplies_bf16()
    assert ("of bf16, which are widened to f32: steps take longer" in said) == is_slow
    assert "bf16" not in before


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy, name", covering(LAYOUTS[1:], MODELS))
def test_sums_in_f32_are_rounded_as_on_one_rank(tools, tmp_path, mesh, strategy, name):
    """The interpreter's f32 is f64: partial sums that move in f32 lose nothing.

    Before fusion, since what one rank adds within a product is not rounded before.
    """
    interpreter = Interpreter(tools, tmp_path)
    flags = (*NARROW, "--mesh", mesh, "--strategy", strategy)

    def gradients(*flags):
        program = compiled(tools, tmp_path, name, *flags, phase="tune")
        results = interpreter.run(program, "grad_step", arguments(name))
        return np.concatenate([results[key].ravel() for key in sorted(results)])

    expected = gradients(*NARROW)
    assert relative(gradients(*flags, "--reduce-precision", "f32"), expected) < 1e-12
    # What moves within a ccl.matmul the interpreter does not round.
    assert "summa" in strategy or relative(gradients(*flags), expected) > 1e-4


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[1:3])
def test_libraries_sum_in_f32(tools, text, mesh, strategy):
    serial = tools.library(TRAINED["gpt2"], None, "serial", *NARROW)
    wide = ("--reduce-precision", "f32")
    sharded = tools.library(TRAINED["gpt2"], mesh, strategy, *NARROW, *wide)
    assert sharded.read_bytes() != tools.library(TRAINED["gpt2"], mesh, strategy, *NARROW).read_bytes()
    tools.run("optimus-run", "verify", serial, sharded, "--data", text)


def test_gradients_of_weights_are_narrow(tools, text):
    """The same on a mesh, within verify's bounds, and another program than without."""
    mesh, strategy = LAYOUTS[1]
    flags = (*NARROW, "--reduce-precision", "bf16")
    serial = tools.library(TRAINED["gpt2"], None, "serial", *flags)
    sharded = tools.library(TRAINED["gpt2"], mesh, strategy, *flags)
    assert sharded.read_bytes() != tools.library(TRAINED["gpt2"], mesh, strategy, *NARROW).read_bytes()
    tools.run("optimus-run", "verify", serial, sharded, "--data", text)


@pytest.mark.rotates
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[1:])
def test_meshes_agree_within_derived_bounds(tools, text, name, mesh, strategy):
    serial = tools.library(TRAINED[name], None, "serial", *NARROW)
    sharded = tools.library(TRAINED[name], mesh, strategy, *NARROW)
    tools.run("optimus-run", "verify", serial, sharded, "--data", text)


def first_batch(name, tokens):
    model = TRAINED[name]
    if name != "bert":
        return sequential_batch(tokens, model.sequence, model.batch, 0)
    rows = np.arange(model.batch)
    inputs, _ = windows(tokens.astype(np.int64), model.sequence)
    return masked(inputs[rows], rows, 1, 1, model.vocabulary, model.vocabulary - 1, 0)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy, share", [(*LAYOUTS[0], 0.6), (*LAYOUTS[1], 0.85)], ids=["serial", "summa"]
)
@pytest.mark.parametrize("name", TRAINED)
def test_libraries_round_where_the_interpreter_does(
    tools, tmp_path, text, text_tokens, name, mesh, strategy, share
):
    """A step of a library against plain loops in f64 with rounding of bf16 values.

    Errors of f32 turn a rounding the other way here and there, more often on a mesh,
    where partial sums are rounded too, and later values move with it. Still the library
    must be nearer to the interpreter than a program is that rounds nowhere; a program
    with rounding elsewhere would be farther off.
    """
    flags = ("--mesh", mesh, "--strategy", strategy)
    library = tools.library(TRAINED[name], mesh, strategy, *NARROW)
    initial = tools.initial(library, text, tmp_path / "initial").parameters
    tools.train(
        library, text, 1, "--seed", 1, "--clip", 1e30, "--save", tmp_path / "end", log=tmp_path / "log"
    )
    moments = Checkpoint(tmp_path / "end").moments
    batch = dict(zip(("tokens", "targets"), first_batch(name, text_tokens)))
    random = {"random": Dropout(0.1, 1, 1).words()} if name == "gpt2" else {}
    interpreter = Interpreter(tools, tmp_path)

    def gradients(*precision):
        program = tmp_path / ("%s.mlir" % len(precision))
        model = tools.program(TRAINED[name])
        tools.run("optimus-compile", model, *flags, *precision, "--compile-to", "fuse", "-o", program)
        found = interpreter.run(program, "grad_step", {**initial, **batch, **random})
        return {key: g.ravel() / found["real_count"] for key, g in strip(found, "grad:").items()}

    expected, wide = gradients(*NARROW), gradients()
    assert expected.keys() == {key[8:] for key in moments if key.startswith("exp_avg.")}
    # After one step exp_avg is (1 - beta1) of the gradient.
    found = {key: moments["exp_avg." + key].ravel() / np.float64(0.1) for key in expected}

    def distance(one, other):
        return math.sqrt(sum(np.sum((one[key] - other[key]) ** 2) for key in expected))

    assert distance(found, expected) < share * distance(wide, expected)


def test_both_precisions_agree_within_derived_bounds(tools, text):
    wide = tools.library(TRAINED["gpt2"])
    narrow = tools.library(TRAINED["gpt2"], None, "serial", *NARROW)
    tools.run("optimus-run", "verify", wide, narrow, "--data", text)


def test_a_checkpoint_is_f32_and_loads_into_either(tools, tmp_path, text):
    narrow = tools.library(TRAINED["gpt2"], None, "serial", *NARROW)
    wide = tools.library(TRAINED["gpt2"])
    saved = tmp_path / "narrow", tmp_path / "wide"
    tools.train(narrow, text, 3, "--save", saved[0], log=tmp_path / "1")
    tools.train(wide, text, 5, "--load", saved[0], "--save", saved[1], log=tmp_path / "2")
    tools.train(narrow, text, 7, "--load", saved[1], log=tmp_path / "3")
    for folder in saved:
        parameters = Checkpoint(folder).parameters
        assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


def test_threads_and_mpi_give_the_same_bits(tools, tmp_path, text):
    path = tools.library(TRAINED["gpt2"], "row:2,col:2", "summa", *NARROW)
    found = []
    for name, prefix in ("threads", []), ("mpi", mpirun(4)):
        flags = ["--save", tmp_path / name]
        log = tools.train(path, text, 3, *flags, log=tmp_path / (name + ".log"), prefix=prefix)
        found.append((losses(log).tolist(), Checkpoint(tmp_path / name).parameters))
    assert found[0][0] == found[1][0]
    for key, value in found[0][1].items():
        assert np.array_equal(value, found[1][1][key]), key


def test_activations_take_half(tools):
    def activations(*flags):
        path = tools.library(TRAINED["gpt2"], None, "serial", *flags)
        manifest = json.loads(tools.run("optimus-run", "inspect", path, "--json"))
        step = next(f for f in manifest["functions"] if f["name"] == "train_step")
        return step["peak_bytes"]["activation"]

    assert activations(*NARROW) <= 0.55 * activations()
