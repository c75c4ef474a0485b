# ===- test_llama.py - Llama against NumPy --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the built, differentiated and partitioned Llama means, and trains.

Bounds are those of test_gradients and, for training in f32, of test_meshes.
"""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest

from finite_differences import check_central_differences
from gpt2_reference import Hyper, windows
from interpreter import (
    LAYOUTS,
    Interpreter,
    SerialResults,
    draw_batch,
    draw_parameters,
    expect_gradients,
    relative_error,
)
from llama_reference import Llama, llama3_speeds
from optimus.models import ConfigError, llama
from selection import covering
from test_gradients import STEP, TOLERANCE
from tools import Checkpoint, LlamaModel, losses

GROUPED = LlamaModel(
    layers=2, hidden=16, heads=4, kv_heads=2, ffn=22, sequence=6, vocabulary=19, batch=3
)
MODELS = {
    # Two heads of queries share each head of keys; nothing divides 3.
    "grouped": GROUPED,
    # Four heads of queries share one, and their channels divide by 4 columns.
    "few": GROUPED._replace(layers=1, hidden=32, heads=8),
    # Every head of queries has its own.
    "full": GROUPED._replace(layers=1, kv_heads=4, sequence=5, rope_theta=50.0),
    # One head of keys for all, and the head is the embedding.
    "tied": GROUPED._replace(layers=1, hidden=12, heads=3, kv_heads=1, tied=True),
    # Mistral: the last three tokens alone are seen.
    "window": GROUPED._replace(window=3),
    # As Qwen2.
    "biased": GROUPED._replace(layers=1, qkv_bias=True),
    # As Qwen3: 4 heads of 6 channels in a stream of 16.
    "normed": GROUPED._replace(layers=1, head_dim=6, qk_norm=True),
    # As Llama 3.1: of four pairs one turns as it did, two are between.
    "stretched": GROUPED._replace(
        layers=1, head_dim=8, rope_theta=50.0, rope_scaling="llama3:8,1,4,60"
    ),
    "linear": GROUPED._replace(layers=1, rope_scaling="linear:2.5"),
}


def reference(model, parameters):
    theta, window = model.rope_theta, model.window
    half = (model.head_dim or model.hidden // model.heads) // 2
    speeds = None
    if (model.rope_scaling or "").startswith("linear:"):
        speeds = theta ** (-np.arange(half) / half) / 2.5
    elif model.rope_scaling:
        speeds = llama3_speeds(theta, half, 8, 1, 4, 60)
    return Llama(parameters, model.heads, model.kv_heads, theta, window=window, speeds=speeds)


@pytest.fixture
def interpreter(tools, tmp_path):
    return Interpreter(tools, tmp_path)


def test_the_reference_s_gradients_equal_central_differences():
    random = np.random.default_rng(8)
    for model in MODELS.values():
        parameters, batch = draw_parameters(model), draw_batch(model)
        numpy = reference(model, parameters)
        _, _, gradients = numpy.loss_and_gradients(*batch)
        check_central_differences(
            lambda: numpy.loss(*batch)[0], parameters, gradients, random, draws=3
        )


@pytest.mark.parametrize("fuse", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_equal_numpy(interpreter, name, fuse):
    model = MODELS[name]
    parameters, batch = draw_parameters(model), draw_batch(model)
    passes = STEP + (("--optimus-fuse",) if fuse else ())
    program = interpreter.lower(model, *passes)
    arguments = {**parameters, **batch._asdict()}
    results = interpreter.run(program, "grad_step", arguments)
    loss, count, gradients = reference(model, parameters).loss_and_gradients(*batch)
    assert results["real_count"] == count
    expect_gradients(results, loss, gradients, TOLERANCE)
    evaluated = interpreter.run(program, "eval_step", arguments)
    assert evaluated["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)


# --------------------------------------------------------------- partitioned

# epsilon: see test_three_training_steps_equal_numpy.
HYPER = Hyper(epsilon=1e-3)
PARTITIONED = {
    # On 4 columns there are more ranks than heads of keys; the vocabulary, the
    # batch and the feed-forward width divide nothing.
    "uneven": LlamaModel(
        2, hidden=12, heads=6, kv_heads=2, ffn=9, sequence=3, vocabulary=13, batch=5
    ),
    # Some ranks hold nothing but padding.
    "tiny": LlamaModel(
        1, hidden=2, heads=1, kv_heads=1, ffn=2, sequence=2, vocabulary=2, batch=1, tied=True
    ),
    # Biases of heads that no mesh divides.
    "biased": LlamaModel(
        1, hidden=12, heads=6, kv_heads=3, ffn=9, sequence=3, vocabulary=13, batch=5,
        qkv_bias=True,
    ),
    "stretched": LlamaModel(
        1, hidden=12, heads=6, kv_heads=3, ffn=9, sequence=3, vocabulary=13, batch=5,
        head_dim=4, rope_theta=50.0, rope_scaling="llama3:8,1,4,60",
    ),
    # Norms of heads that no mesh divides, of another width than the stream's share.
    "normed": LlamaModel(
        1, hidden=10, heads=6, kv_heads=3, ffn=9, sequence=3, vocabulary=13, batch=5,
        head_dim=4, qk_norm=True,
    ),
}


@pytest.fixture(scope="module")
def serial_results(tools, tmp_path_factory):
    return SerialResults(tools, PARTITIONED, HYPER, tmp_path_factory)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy, name", covering(LAYOUTS, PARTITIONED))
def test_every_mesh_means_the_serial_program(
    tools, tmp_path, serial_results, mesh, strategy, name
):
    interpreter = Interpreter(tools, tmp_path)
    program = tmp_path / "compiled.mlir"
    options = ["--mesh", mesh, "--strategy", strategy, "--compile-to", "fuse"]
    source = tools.program(PARTITIONED[name])
    tools.run("optimus-compile", source, *options, "-o", program)
    for function in ("train_step", "eval_step"):
        results = interpreter.run(program, function, serial_results.arguments(name))
        expected = serial_results(name, function)
        assert results.keys() == expected.keys()
        for key, value in expected.items():
            assert relative_error(results[key], value) < TOLERANCE, (function, key)


def test_a_strategy_cuts_what_it_should(tools, tmp_path):
    """Guards the test above: it would also pass where nothing is sharded."""
    interpreter = Interpreter(tools, tmp_path)
    shard = "--optimus-shard=mesh=row:2,col:2 strategy=summa"
    program = interpreter.lower(GROUPED, *STEP, shard, "--optimus-partition")
    text = program.read_text()
    for op in ("ccl.matmul", "ccl.all_reduce", "optimus.row_dot", "ccl.head_loss_grad"):
        assert op in text
    # Two heads of keys, one on each column; linear weights as published.
    assert re.search(r"optimus\.rotary .* tensor<2x6x1x4xf32,", text)
    assert "optimus.rms_norm " not in text


# ------------------------------------------------------------------ compiled

TRAINED = LlamaModel(
    layers=2, hidden=48, heads=6, kv_heads=3, ffn=100, sequence=32, vocabulary=256, batch=4
)
STEPS = 20


class Run:
    def __init__(self, tools, library, text, folder):
        self.initial = tools.initial(library, text, folder / "initial").parameters
        flags = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]
        flags += ["--save", folder / "final"]
        self.log = tools.train(library, text, STEPS, *flags, log=folder / "log")
        self.final = folder / "final"
        self.library = library


@pytest.fixture(scope="module")
def serial(tools, text, tmp_path_factory):
    return Run(tools, tools.library(TRAINED), text, tmp_path_factory.mktemp("llama"))


def test_checkpoints_have_hugging_face_s_names_and_shapes(serial):
    shapes = dict(TRAINED.parameter_shapes())
    assert {name: p.shape for name, p in serial.initial.items()} == shapes
    for name, p in serial.initial.items():
        if p.ndim == 1:
            assert (p == 1).all(), name
        else:
            # Five sigma of a mean and of a deviation; see test_training.
            stray = 5 * 0.02 / np.sqrt(p.size)
            assert abs(p.mean()) < stray and abs(p.std() - 0.02) < stray, name


def test_compiled_evaluation_equals_numpy(tools, text, text_tokens, serial):
    flags = ("--data", text, "--load", serial.final, "--json")
    found = json.loads(tools.run("optimus-run", "eval", serial.library, *flags))
    parameters = {
        name: p.astype(np.float64)
        for name, p in Checkpoint(serial.final).parameters.items()
    }
    loss, count = reference(TRAINED, parameters).loss(
        *windows(text_tokens, TRAINED.sequence)
    )
    assert found["tokens"] == count
    assert found["loss"] == pytest.approx(loss / count, abs=1e-5)
    assert losses(serial.log)[-1] < losses(serial.log)[0] - 1


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:2", "summa"),
        ("row:1,col:4", "summa"),
        ("row:3,col:2", "summa-paper"),
        ("row:1,col:4", "megatron"),
        ("row:2,col:2", "megatron-sp"),
        ("data:2,row:1,col:2", "summa"),
    ],
)
def test_a_mesh_trains_as_one_rank(tools, text, serial, tmp_path, mesh, strategy):
    library = tools.library(TRAINED, mesh, strategy)
    run = Run(tools, library, text, tmp_path)
    for name, p in serial.initial.items():
        assert run.initial[name].tobytes() == p.tobytes(), name
    np.testing.assert_allclose(losses(run.log), losses(serial.log), rtol=1e-4)
    report = json.loads(
        tools.run(
            *("optimus-run", "verify", serial.library, library),
            *("--data", text, "--json", "--load", serial.final),
        )
    )
    names = [tensor["name"] for tensor in report["tensors"]]
    assert names == ["loss", *serial.initial]
    assert all(tensor["same"] for tensor in report["tensors"])


FEW = TRAINED._replace(hidden=64, heads=8, kv_heads=2)


@pytest.fixture(scope="module")
def few(tools, text, tmp_path_factory):
    return Run(tools, tools.library(FEW), text, tmp_path_factory.mktemp("few"))


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy, precision",
    [
        ("row:1,col:4", "summa", "f32"),
        ("row:2,col:4", "summa", "f32"),
        ("row:2,col:4", "summa", "bf16"),
        ("row:1,col:4", "megatron", "bf16"),
        ("row:1,col:8", "megatron-sp", "f32"),
        ("data:2,row:1,col:4", "summa-paper", "bf16"),
    ],
)
def test_heads_of_keys_for_more_columns(
    tools, text, few, tmp_path, mesh, strategy, precision
):
    """Nothing is padded, files are those of one rank, and so are losses and gradients."""
    flags = ("--precision", precision)
    library = tools.library(FEW, mesh, strategy, *flags)
    run = Run(tools, library, text, tmp_path)
    for name, p in few.initial.items():
        assert run.initial[name].tobytes() == p.tobytes(), name
    if precision == "f32":
        np.testing.assert_allclose(losses(run.log), losses(few.log), rtol=1e-4)
    serial = tools.library(FEW, None, "serial", *flags)
    # A checkpoint of one rank on the mesh, and the mesh's on one rank.
    for checkpoint in few.final, run.final:
        compared = ["verify", serial, library, "--data", text, "--json", "--load", checkpoint]
        report = json.loads(tools.run("optimus-run", *compared))
        assert [tensor["name"] for tensor in report["tensors"]] == ["loss", *few.initial]
        assert all(tensor["same"] for tensor in report["tensors"])
    flags = ("--mesh", mesh, "--strategy", strategy, *flags, "--compile-to", "partition")
    warned = tools.call("optimus-compile", tools.program(FEW), *flags, "-o", os.devnull)
    assert (warned.returncode, warned.stderr) == (0, "")


@pytest.mark.parametrize("strategy", ["megatron", "megatron-sp"])
def test_megatron_moves_what_its_formula_says(tools, strategy):
    # Three products read one activation in attention and two in the gated part;
    # it is gathered once, and the parts of its gradient are added before they
    # are reduced. So a layer moves what GPT-2's does: see test_meshes. The gains
    # of two norms are what is summed over all tokens with sequence parallelism.
    moved = []
    for model in (TRAINED, TRAINED._replace(layers=3)):
        manifest = tools.manifest(model, "row:1,col:4", strategy)
        (step,) = [f for f in manifest["functions"] if f["name"] == "train_step"]
        moved.append({c["axis"]: c["bytes"] for c in step["communication"]}["col"])
    activation = TRAINED.batch * TRAINED.sequence * TRAINED.hidden * 4
    gains = 2 * 2 * TRAINED.hidden * 4
    expected = {"megatron": 8 * activation, "megatron-sp": 10 * activation + gains}
    assert moved[1] - moved[0] == 3 * expected[strategy]


# ------------------------------------------------------------------- builder


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(heads=5), "hidden (16) is not divisible by heads (5)"),
        (dict(heads=16), "hidden / heads is 1; expected an even number"),
        (dict(kv_heads=3), "heads (4) is not divisible by kv_heads (3)"),
        (dict(kv_heads=0), "kv_heads is 0; expected a whole number from 1 to"),
        (dict(window=0), "window is 0; expected a whole number from 1 to"),
        (dict(rope_theta=0.0), "rope_theta is 0.0; expected a positive number"),
        (dict(vocabulary=2**31), "vocabulary is 2147483648"),
    ],
)
def test_bad_configurations(changes, message):
    config = llama.Config(
        layers=1,
        hidden=16,
        heads=4,
        kv_heads=2,
        ffn=8,
        sequence=4,
        vocabulary=9,
        batch=2,
    )
    llama.build(config)
    with pytest.raises(ConfigError, match=re.escape(message)):
        llama.build(replace(config, **changes))


def test_weights_are_stored_as_published(tools):
    text = tools.program(GROUPED).read_text()
    q = re.search(r'%model_layers_0_self_attn_q_proj_weight: (.*)', text).group(1)
    assert q.startswith("tensor<2x2x4x16xf32>")
    assert "optimus.hf_shape = array<i64: 16, 16>" in q
    gate = re.search(r'%model_layers_0_mlp_gate_proj_weight: (.*)', text).group(1)
    assert gate.startswith("tensor<22x16xf32>") and "hf_shape" not in gate
