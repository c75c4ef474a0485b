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

import numpy as np
import pytest

from blocks_reference import round_to_blocks
from test_forward import rounding_bound
from test_generation import EXTENTS, PROMPT, WHOLE, draw_prompts, generate
from tools import Checkpoint, LlamaModel, Model, call

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


def test_a_rank_holds_blocks_of_few_bits_alone(tools, tmp_path):
    model, _ = FEW_BITS["gpt2"]
    source = tools.program(model, None, EXTENTS)
    library, report = tmp_path / "model.so", tmp_path / "report.json"
    tools.run("optimus-compile", source, "--weights", "int4", "-o", library,
              "--report-json", report)
    planned = json.loads(report.read_text())["memory"]
    timed = ("bench", library, "--generate", "--rounds", 1, "--json")
    held = json.loads(tools.run("optimus-run", *timed))["memory"]["parameters"]
    shapes = dict(model.parameter_shapes())
    blocks = {name for name, shape in shapes.items() if len(shape) == 2} - {"wpe.weight"}

    def rounded(size):
        return -(-size // 64) * 64

    expected = sum(
        rounded(size // 32 * 18 if name in blocks else size * 4)
        for name, size in ((name, int(np.prod(shape))) for name, shape in shapes.items())
    )
    assert held == planned["decode"]["parameters"] == expected


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
