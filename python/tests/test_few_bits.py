# ===- test_few_bits.py - Generation by weights of few bits -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-compile --weights int8|int4`: logits are those of the values in the blocks,
and a rank holds blocks alone."""

import json
import struct
import sys

import numpy as np
import pytest

from blocks_reference import round_to_blocks
from generation_models import EXTENTS, PROMPT, WHOLE, draw_prompts, generate
from test_forward import rounding_bound
from tools import Checkpoint, LlamaModel, Model, call, succeed

STATIONARY = "summa,prefill=stationary,decode=stationary,score=stationary"
FEW_BITS = {
    # Blocks of GPT-2's [in, out] go down its columns, those of others along rows.
    "gpt2": (Model(2, 32, 4, sequence=WHOLE, vocabulary=19, batch=2), 0),
    "llama": (LlamaModel(1, 64, 4, 2, ffn=64, sequence=WHOLE, vocabulary=13, batch=2), 1),
}


@pytest.mark.parametrize(
    "name, bits, precision, layout",
    [
        ("gpt2", 8, "f32", (None, "serial")),
        ("llama", 4, "f32", ("row:1,col:2", "megatron")),
        ("llama", 8, "f32", ("row:2,col:2", STATIONARY)),
        pytest.param("llama", 8, "bf16", (None, "serial"), marks=pytest.mark.rotates),
        pytest.param("gpt2", 4, "bf16", (None, "serial"), marks=pytest.mark.rotates),
    ],
)
def test_weights_of_few_bits_have_the_logits_of_their_values(
    tools, tmp_path, name, bits, precision, layout
):
    """Those of NumPy with what blocks hold of the parameters, and the parameters
    themselves have others."""
    model, summed = FEW_BITS[name]
    held = ("--precision", precision, "--weights", "int%d" % bits)
    library = tools.library(model, *layout, *held, functions="loss,forward", generate=EXTENTS)
    folder = tmp_path / "state"
    tokens = tmp_path / "tokens.bin"
    np.zeros(64, dtype=np.uint16).tofile(tokens)
    tools.train(library, tokens, 0, "--save", folder, log=tmp_path / "log")
    state = Checkpoint(folder)
    rounding = tools.rounding(library)
    prompts = draw_prompts(model, 4)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    exact = {key: value.astype(float) for key, value in state.parameters.items()}

    def round_one(key, value):
        if value.ndim == 1 or key == "wpe.weight":
            return value
        axis = 1 if key in ("wte.weight", "model.embed_tokens.weight") else summed
        return round_to_blocks(value, bits, axis).astype(float)

    rounded = {key: round_one(key, value) for key, value in exact.items()}
    for prompt, answer, found in zip(prompts, answers, logits):
        whole = np.array([prompt + answer["tokens"][:-1]])
        expected, bound = rounding_bound(model, rounded, whole, rounding)
        error = np.linalg.norm(found - expected[0, PROMPT - 1 :])
        assert error <= bound
        if precision == "f32":
            other, _ = rounding_bound(model, exact, whole, rounding)
            assert np.linalg.norm(other - expected) > 10 * bound


@pytest.mark.variants
@pytest.mark.parametrize("form, flags, layout", [
    ("int8", ("--weights", "int8"), (None, "serial")),
    ("int4", ("--weights", "int4"), ("row:1,col:2", "megatron")),
    ("bf16", ("--precision", "bf16"), ("row:1,col:2", "megatron")),
])
def test_verify_holds_blocks_to_their_units(tools, tmp_path, form, flags, layout):
    """On each rank; how far f16 and the integers may be off is derived in WeightBlocks.h."""
    model = Model(1, 64, 4, sequence=WHOLE, vocabulary=19, batch=2)
    few = tools.library(model, *layout, *flags, functions="loss,forward", generate=EXTENTS)
    wide = tools.library(model, functions="loss,forward")
    tokens = tmp_path / "tokens.bin"
    np.arange(64, dtype=np.uint16).__mod__(19).tofile(tokens)
    report = json.loads(tools.run("optimus-run", "verify", wide, few, "--data", tokens,
                                  "--token-type", "u16", "--json"))
    compared = {
        tensor["name"]: tensor
        for tensor in report["tensors"] if tensor["name"].endswith(" in " + form)
    }
    shapes = dict(model.parameter_shapes())
    blocks = {name for name, shape in shapes.items() if len(shape) == 2} - {"wpe.weight"}
    assert set(compared) == {f"{name} in {form}" for name in blocks}
    # Errors are uniform, half a unit at most: in norm 1 / sqrt(3) of that. A unit of bf16 is
    # up to a half of what it is taken for.
    assert report["same"]
    assert all(0.25 < tensor["of_bound"] < 0.7 for tensor in compared.values())


def size_of_blocks(model):
    """What a rank holds of parameters in int4, and of the largest in f32."""
    shapes = dict(model.parameter_shapes())
    blocks = {name for name, shape in shapes.items() if len(shape) == 2} - {"wpe.weight"}

    def bytes_of(name):
        if name not in blocks:
            return int(np.prod(shapes[name])) * 4
        # Columns are whole sixteens; those of a table of tokens are its rows.
        rows, cols = shapes[name]
        if rows == model.vocabulary:
            rows, cols = cols, rows
        return rows // 32 * 18 * (-(-cols // 16) * 16)

    held = sum(-(-bytes_of(name) // 64) * 64 for name in shapes)
    return held, max(4 * int(np.prod(shapes[name])) for name in blocks)


def test_a_model_of_seven_billion_fits(tools, tmp_path):
    """In 4.3 GB while it is loaded, of 26 in f32."""
    model = LlamaModel(32, 4096, 32, 32, ffn=11008, sequence=2048, vocabulary=32000, batch=1)
    source = tools.program(model, None, "slots=1,context=2048,chunk=128")
    report = tmp_path / "report.json"
    tools.run("optimus-compile", source, "--weights", "int4", "--plan", "-o", tmp_path / "plan",
              "--report-json", report)
    loaded = json.loads(report.read_text())["memory"]["generation"]
    assert (loaded["parameters"], loaded["staging"]) == size_of_blocks(model)
    assert loaded["parameters"] + loaded["staging"] < 4.4e9


def test_a_rank_holds_blocks_of_few_bits_alone(tools, tmp_path):
    model, _ = FEW_BITS["gpt2"]
    source = tools.program(model, None, EXTENTS)
    library, report = tmp_path / "model.so", tmp_path / "report.json"
    tools.run("optimus-compile", source, "--weights", "int4", "-o", library,
              "--report-json", report)
    planned = json.loads(report.read_text())["memory"]
    timed = ("bench", library, "--generate", "--rounds", 1, "--json")
    held = json.loads(tools.run("optimus-run", *timed))["memory"]["parameters"]
    lacks = tools.call("optimus-run", "eval", library, "--data", library)
    assert "its functions are 9 of the kind prepare, prefill (prefill, batch" in lacks.stderr
    expected, largest = size_of_blocks(model)
    assert held == planned["decode"]["parameters"] == expected
    # While they are loaded, one at a time is there in f32.
    loaded = planned["generation"]
    assert (loaded["parameters"], loaded["staging"]) == (expected, largest)


# The system counts the memory of before an exec for the program after it.
SMALL_PARENT = """
import os, sys
silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def resident_bytes(command):
    """The most memory of a command, which must succeed."""
    parent = [sys.executable, "-S", "-c", SMALL_PARENT]
    return int(succeed(call([*parent, *map(str, command)]))) * 1024


def write_zeros(folder, model):
    """Weights as a sparse file."""
    folder.mkdir()
    header, end = {}, 0
    for name, shape in dict(model.parameter_shapes()).items():
        begin, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return end


@pytest.mark.rotates
def test_loading_holds_blocks_and_one_parameter(tools, tmp_path):
    """Of weights that take six times as much in f32."""
    if tools.has_address_sanitizer:
        pytest.skip("what a sanitizer holds is unknown")
    model = Model(8, 1024, 16, sequence=32, vocabulary=64, batch=1)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("[1, 2, 3]\n")

    def load(model, *flags):
        source = tools.program(model, None, "slots=1,context=32,chunk=8")
        library, report = tmp_path / "model.so", tmp_path / "report.json"
        tools.run("optimus-compile", source, *flags, "-o", library, "--report-json", report)
        folder = tmp_path / str(model.layers)
        size = write_zeros(folder, model)
        generated = ("generate", library, "--load", folder, "--tokens", prompts,
                     "--max-tokens", 2, "--threads-per-rank", 1)
        used = resident_bytes(tools.command("optimus-run", *generated))
        return used, json.loads(report.read_text())["memory"]["generation"], size

    program, small, _ = load(Model(1, 32, 4, 32, 64, batch=1), "--weights", "int4")
    used, planned, size = load(model, "--weights", "int4")
    # Pieces of files that are read at a time, and libraries' own.
    beside = 24 << 20
    most = planned["total"] + program - small["total"] + beside
    assert planned["staging"] == 4 * 1024 * 4096
    assert planned["total"] < used <= most < size / 2


@pytest.mark.parametrize(
    "layout, model, flags, said",
    [
        (("--mesh", "row:2,col:2"), FEW_BITS["gpt2"][0], (), "moves a weight between ranks"),
        ((), Model(1, 48, 4, WHOLE, 19, batch=2), (), "sums 48 elements on a rank"),
        ((), FEW_BITS["gpt2"][0], ("--target", "cuda"), "--target cpu beside it"),
        ((), FEW_BITS["gpt2"][0], ("--offload", "parameters"), "no --offload beside it"),
    ],
    ids=["moves", "straddles", "gpu", "offload"],
)
def test_weights_that_have_no_blocks_are_refused(tools, tmp_path, layout, model, flags, said):
    source = tools.program(model, None, EXTENTS)
    result = call(
        tools.command("optimus-compile", source, "--weights", "int8", *layout, *flags,
                      "-o", tmp_path / "model.so")
    )
    assert result.returncode == 1 and said in result.stderr
