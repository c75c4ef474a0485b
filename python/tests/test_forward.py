# ===- test_forward.py - The logits of a model ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`@forward` of all families, in f64 and as `optimus-run forward` writes it.

In f64 the interpreter is held against NumPy within the bound of test_gradients. A
library's f32 logits are off by what docs/equivalence.md derives of one program's
rounding: 4 R u times the norm of the logits or, where parameters moved by a unit u in
the last place change them by more than as many independent changes would, of that.
"""

import json
import re

import numpy as np
import pytest

import safetensors_file
import test_llama
from bert_reference import Bert
from families_reference import GatedEncoder, Neox, Phi, unpacked
from gpt2_reference import Gpt2
from interpreter import Interpreter, draw_batch, draw_parameters, relative_error
from test_gradients import TOLERANCE
from tools import (
    BertModel,
    Checkpoint,
    GatedEncoderModel,
    LlamaModel,
    Model,
    NeoxModel,
    PhiModel,
    call,
    mpirun,
    succeed,
)

# Vocabularies of odd sizes are padded on every mesh; batches are even or not.
MODELS = {
    "gpt2": Model(2, 16, 4, sequence=8, vocabulary=19, batch=3, dropout=0.25),
    "bert": BertModel(1, 12, 3, sequence=6, vocabulary=11, batch=3, dropout=0.25),
    "llama": LlamaModel(2, 16, 4, 2, ffn=20, sequence=7, vocabulary=13, batch=2),
    "phi": PhiModel(1, 12, 3, sequence=5, vocabulary=11, batch=2, rotary_dim=2, ffn=7),
    "gpt_neox": NeoxModel(1, 12, 3, sequence=5, vocabulary=11, batch=2, rotary_dim=2, ffn=7),
    "gated-encoder": GatedEncoderModel(1, 10, 3, 2, ffn=7, sequence=6, vocabulary=9, batch=3),
}
RUN = Model(2, 48, 4, sequence=16, vocabulary=257, batch=4, dropout=0.1)
BOTH = "loss,forward"
LAYOUTS = [
    (None, "serial"),
    ("row:2,col:2", "summa"),
    ("row:1,col:4", "megatron"),
    ("data:2,row:1,col:2", "megatron-sp"),
]
WINDOWS = 6
"""More than a batch, and no multiple of one."""


def reference(model, parameters):
    kinds = {
        "gpt2": lambda: Gpt2(parameters, model.heads),
        "bert": lambda: Bert(parameters, model.heads),
        "llama": lambda: test_llama.reference(model, parameters),
        "phi": lambda: Phi(parameters, model.heads, model.rotary_dim, model.rope_theta),
        "gpt_neox": lambda: Neox(parameters, model.heads, model.rotary_dim, model.rope_theta),
        "gated-encoder": lambda: GatedEncoder(parameters, model.heads),
    }
    return kinds[model.KIND]()


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_numpy(tools, tmp_path, name):
    model = MODELS[name]
    parameters, batch = draw_parameters(model), draw_batch(model)
    if model.KIND == "gated-encoder":
        # Padding before the end would be looked up as nothing is.
        seen = np.cumsum((batch.tokens != 0)[:, ::-1], axis=1)[:, ::-1] > 0
        batch.tokens[seen & (batch.tokens == 0)] = 1
    expected = reference(model, parameters).logits(batch.tokens)
    interpreter = Interpreter(tools, tmp_path)
    arguments = {**unpacked(parameters, model.heads), "tokens": batch.tokens}
    program = tools.program(model, "forward")
    found = interpreter.run(program, "forward", arguments)["logits"]
    assert relative_error(found, expected) < TOLERANCE
    # On a mesh, too, where the vocabulary is padded.
    sharded = tmp_path / "sharded.mlir"
    shard = "--optimus-shard=mesh=row:2,col:3 strategy=summa"
    tools.run("optimus-opt", program, shard, "--optimus-partition",
              "--optimus-verify-partition", "-o", sharded)
    found = interpreter.run(sharded, "forward", arguments)["logits"]
    assert relative_error(found, expected) < TOLERANCE


@pytest.fixture(scope="module")
def state(tools, text, tmp_path_factory):
    """A checkpoint of a few steps, and the windows' tokens."""
    folder = tmp_path_factory.mktemp("forward") / "state"
    library = tools.library(RUN, functions=BOTH)
    tools.train(library, text, 3, "--lr", 0.01, "--save", folder, log=folder.parent / "log")
    tokens = np.frombuffer(text.read_bytes(), np.uint8)[: WINDOWS * RUN.sequence]
    return Checkpoint(folder), tokens.reshape(WINDOWS, RUN.sequence).astype(int)


def forward(tools, library, text, state, output, *flags, prefix=()):
    command = tools.command(
        "optimus-run",
        *("forward", library, "--load", state.folder, "--data", text),
        *("--windows", WINDOWS, "-o", output, *flags),
    )
    return succeed(call([*prefix, *command]))


def rounding_bound(model, parameters, tokens, rounding):
    """What f32 may do to the norm of the logits."""
    unit, random = 2.0**-24, np.random.default_rng(3)
    exact = reference(model, parameters).logits(tokens)
    moved = {
        name: value * (1 + unit * random.choice([-1, 1], value.shape))
        for name, value in parameters.items()
    }
    change = np.linalg.norm(reference(model, moved).logits(tokens) - exact)
    scale = max(np.linalg.norm(exact), change / (unit * np.sqrt(len(parameters))))
    return exact, 4 * rounding * unit * scale


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS)
def test_a_librarys_logits_are_those_of_numpy(tools, text, state, tmp_path, mesh, strategy):
    checkpoint, tokens = state
    library = tools.library(RUN, mesh, strategy, functions=BOTH)
    said = forward(tools, library, text, checkpoint, tmp_path / "logits.npy")
    # After what is otherwise than the checkpoint's run.
    assert said.splitlines()[-1] == (
        "logits of 6 windows, f32 of shape [6, 16, 257], in %s" % (tmp_path / "logits.npy")
    )
    found = np.load(tmp_path / "logits.npy")
    assert found.dtype == np.float32 and found.shape == (WINDOWS, 16, 257)
    rounding = tools.rounding(library)
    parameters = {k: v.astype(float) for k, v in checkpoint.parameters.items()}
    expected, bound = rounding_bound(RUN, parameters, tokens, rounding)
    assert np.linalg.norm(found - expected) <= bound
    # The bound would not excuse the logits of other windows, nor of dropout.
    assert bound < 1e-3 * np.linalg.norm(expected)


def test_processes_and_formats_write_the_same_bits(tools, text, state, tmp_path):
    checkpoint, _ = state
    library = tools.library(RUN, "row:2,col:2", "summa", functions=BOTH)
    one, other = tmp_path / "threads.npy", tmp_path / "processes.safetensors"
    forward(tools, library, text, checkpoint, one)
    forward(tools, library, text, checkpoint, other, prefix=mpirun(4))
    (tensor,) = safetensors_file.read(other).values()
    assert tensor.tobytes() == np.load(one).tobytes()


def test_a_large_batch_is_written_piece_by_piece(tools, text, state, tmp_path):
    """Its logits are several pieces, of which the last has padded windows alone."""
    checkpoint, _ = state
    found = {}
    for batch in (4, 40):
        library = tools.library(RUN._replace(batch=batch), functions=BOTH)
        output = tmp_path / ("%d.npy" % batch)
        tools.run("optimus-run", "forward", library, "--load", checkpoint.folder, "--data", text,
                  "--windows", 30, "-o", output)
        found[batch] = np.load(output)
    assert found[4].shape == (30, 16, 257)
    # Sums of 48 and 192 terms in f32, in two orders.
    np.testing.assert_allclose(found[40], found[4], rtol=1e-4, atol=1e-4)
    # That would find other windows' logits.
    assert not np.allclose(found[40][1:], found[4][:-1], rtol=1e-4, atol=1e-4)


def test_a_library_of_the_forward_alone_gives_the_same_bits(tools, text, state, tmp_path):
    checkpoint, _ = state
    for name, functions in [("both", BOTH), ("alone", "forward")]:
        library = tools.library(RUN, functions=functions)
        forward(tools, library, text, checkpoint, tmp_path / (name + ".npy"))
    assert (tmp_path / "alone.npy").read_bytes() == (tmp_path / "both.npy").read_bytes()
    kinds = [buffer["role"] for buffer in tools.buffers(library)]
    assert set(kinds) == {"parameter", "tokens", "logits"}


def test_training_is_as_without_it(tools):
    """Commands, arenas and memory of training do not know of another function."""

    def functions(library):
        manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
        kept = [f for f in manifest["functions"] if f["entry"]["kind"] != "forward"]
        names = {i: b["name"] for i, b in enumerate(manifest["buffers"])}
        for function in kept:
            for arg in function["args"]:
                arg["buffer"] = names[arg["buffer"]]
        return kept

    def commands(library, name):
        flags = ("--commands", "--function", name)
        text = tools.run("optimus-run", "inspect", library, *flags)
        # Arguments stand in the program, whose name is another one.
        return re.sub(r"\(gpt2-[^ ]*\.mlir:", "(gpt2.mlir:", text)

    plain = tools.library(RUN, "row:2,col:2", "summa")
    more = tools.library(RUN, "row:2,col:2", "summa", functions=BOTH)
    assert functions(more) == functions(plain)
    for function in functions(plain):
        assert commands(more, function["name"]) == commands(plain, function["name"])


def test_verify_compares_logits(tools, text, tmp_path):
    serial = tools.library(RUN, functions=BOTH)
    summa = tools.library(RUN, "row:2,col:2", "summa", functions=BOTH)
    report = json.loads(
        tools.run("optimus-run", "verify", serial, summa, "--data", text, "--json")
    )
    assert report["same"]
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert 0 < tensors["logits"]["relative_difference"] <= tensors["logits"]["bound"]
    assert {"loss", "wte.weight"} < tensors.keys()
    # Without logits in one, or with nothing else in one, the rest is compared.
    alone = tools.library(RUN, functions="forward")
    for first, names in [(alone, {"logits"}), (tools.library(RUN), tensors.keys() - {"logits"})]:
        text_report = tools.run("optimus-run", "verify", first, summa, "--data", text, "--json")
        assert {t["name"] for t in json.loads(text_report)["tensors"]} == names


def test_bench_times_a_kind(tools):
    library = tools.library(RUN, functions=BOTH)
    flags = ("--steps", 2, "--warmup", 0, "--json")
    for kind, name in [("forward", "forward"), ("eval", "eval_step"), ("grad", "grad_step")]:
        report = tools.run("optimus-run", "bench", library, "--function", kind, *flags)
        assert json.loads(report)["function"] == name


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--result", "probabilities"], r"forward has no output \"probabilities\"; it has logits"),
        (["--function", "eval_step"], "has no function of the kind forward called eval_step; its "
         r"functions are train_step \(train, batch 4 of 16 tokens\), .*, forward \(forward, "),
        (["--windows", "1000000000"], "--windows 1000000000: .* has [0-9]+ windows of 16 tokens"),
        (["-o", "{tmp}/logits.csv"], r"expected an output called \*.npy or \*.safetensors, found "),
        (["-o", "{tmp}/none/logits.npy"], "none"),
    ],
    ids=["result", "function", "windows", "format", "folder"],
)
def test_mistakes_end_before_anything_is_written(tools, text, tmp_path, flags, message):
    library = tools.library(RUN, functions=BOTH)
    flags = [flag.format(tmp=tmp_path) for flag in flags]
    output = [] if "-o" in flags else ["-o", tmp_path / "logits.npy"]
    result = tools.call("optimus-run", "forward", library, "--data", text, *flags, *output)
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_library_without_a_kind_says_what_it_has(tools, text, tmp_path):
    plain, alone = tools.library(RUN), tools.library(RUN, functions="forward")
    forwarding = ("forward", plain, "--data", text, "-o", tmp_path / "logits.npy")
    for command, kind in [
        (forwarding, "forward"),
        (("eval", alone, "--data", text), "eval"),
        (("bench", alone), "train"),
        (("train", alone, "--data", text, "--steps", 1), "train"),
    ]:
        result = tools.call("optimus-run", *command)
        assert result.returncode == 1
        assert "has no function of the kind %s; its functions are " % kind in result.stderr
        assert "); `python3 -m optimus.models … --functions " in result.stderr
        assert result.stderr.count("\n") == 1
    generating = tools.library(RUN, functions=None, generate="slots=1,context=8,chunk=4")
    result = tools.call("optimus-run", "verify", alone, generating, "--data", text)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert re.search("grad or forward in both .* has forward .*, and .* has prefill ", result.stderr)


def test_of_two_functions_of_a_kind_one_is_named(tools, text, tmp_path):
    """As a program may have them, under names of its own."""
    program = tools.program(RUN, functions="forward").read_text()
    begin, end = program.index("  func.func @forward("), program.rindex("\n}") + 1
    again = program[begin:end].replace("@forward(", "@again(")
    source, library = tmp_path / "two.mlir", tmp_path / "two.so"
    source.write_text(program[:end] + again + program[end:])
    tools.run("optimus-compile", source, "-o", library)
    several = re.escape("two.so` has several functions of the kind forward: forward (forward, "
                        "batch 4 of 16 tokens), again (forward, batch 4 of 16 tokens); ")
    output = ("--data", text, "--windows", 1, "-o", tmp_path / "logits.npy")
    for command, advice in [
        (("forward", library, *output), "--function names one"),
        (("bench", library, "--function", "forward"), "name one"),
        (("verify", library, library, "--data", text), "expected one"),
    ]:
        result = tools.call("optimus-run", *command)
        assert result.returncode == 1
        assert re.search(several + advice + "\n$", result.stderr), result.stderr
    tools.run("optimus-run", "forward", library, *output, "--function", "again")
