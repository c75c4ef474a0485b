# ===- test_generation_interpreter.py - Generation, by the interpreter ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prompts in chunks, tokens one by one and scores, as the interpreter has them in f64:
the logits of the whole text."""

import re

import numpy as np
import pytest

from interpreter import Interpreter, draw_parameters, relative_error
from test_forward import reference
from test_generation import CHUNK, EXTENTS, MODELS, SLOTS, WHOLE
from test_gradients import TOLERANCE


class Interpreted:
    """The functions of generation, by the interpreter in f64, with their caches."""

    def __init__(self, tools, tmp_path, model, options):
        self._lowered = tmp_path / "lowered.mlir"
        source = tools.program(model, None, EXTENTS)
        options = [*options, "--compile-to", "fuse", "-o", self._lowered]
        tools.run("optimus-compile", source, *options)
        self._interpreter = Interpreter(tools, tmp_path)
        self._parameters = draw_parameters(model)
        heads = getattr(model, "kv_heads", model.heads)
        roles = re.findall(r'role = "([\w.]+\.(?:keys|values))"', source.read_text())
        shape = (SLOTS, WHOLE, heads, model.hidden // model.heads)
        self._caches = {role: np.zeros(shape) for role in roles}
        assert len(self._caches) == 2 * model.layers
        self.expected = reference(model, self._parameters).logits

    def _run(self, kind, **inputs):
        given = {**self._parameters, **self._caches, **inputs}
        results = self._interpreter.run(self._lowered, kind, given)
        output, *_ = [results.pop(name) for name in OUTPUTS[kind]]
        assert results.keys() == self._caches.keys()
        self._caches = results
        return output

    def chunk(self, kind, slot, begin, tokens, **more):
        """A chunk of a slot; others stay as they are."""
        count = len(tokens)
        places = np.full((CHUNK, 1), -1)
        places[:count, 0] = begin + np.arange(count)
        before = self._caches
        output = self._run(kind, **{
            kind + "_tokens": np.pad(tokens, (0, CHUNK - count))[:, None],
            kind + "_positions": places,
            kind + "_places": places,
            kind + "_slot": np.array([slot]),
            kind + "_length": np.array([begin + count]),
            **more,
        })
        for name, cache in self._caches.items():
            others = np.arange(SLOTS) != slot
            assert (cache[others] == before[name][others]).all()
            assert not cache[slot, begin + count :].any()
        return output

    def decode(self, place, tokens, live):
        return self._run(
            "decode",
            decode_tokens=tokens[:, None],
            decode_positions=np.where(live, place, -1)[:, None],
            lengths=np.where(live, place + 1, 0),
        )[:, 0]


OUTPUTS = {
    "prefill": ["prompt_logits"],
    "decode": ["next_logits"],
    "score": ["log_probabilities", "scored_logits"],
}
MESHES = {
    "serial": [],
    "2x2": ["--mesh", "row:2,col:2"],
    "3x1": ["--mesh", "row:3,col:1"],
    "1x4": ["--mesh", "row:1,col:4", "--strategy", "megatron"],
    "stationary": ["--mesh", "row:2,col:2", "--strategy", "summa,decode=stationary"],
}


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", ["gpt2", "phi"])
def test_chunks_and_tokens_have_the_logits_of_the_whole(tools, tmp_path, name, mesh):
    model = MODELS[name]
    calls = Interpreted(tools, tmp_path, model, MESHES[mesh])
    tokens = np.random.default_rng(4).integers(0, model.vocabulary, (SLOTS, WHOLE))
    expected = calls.expected(tokens)
    live = np.array([True, False, True])
    for slot in np.flatnonzero(live):
        for begin, count in ((0, 3), (3, 2)):
            part = tokens[slot, begin : begin + count]
            last = {"prefill_last": np.array([count - 1])}
            logits = calls.chunk("prefill", slot, begin, part, **last)[0, 0]
            assert relative_error(logits, expected[slot, begin + count - 1]) < TOLERANCE
    for place in range(5, WHOLE):
        logits = calls.decode(place, tokens[:, place], live)
        assert relative_error(logits[live], expected[live, place]) < TOLERANCE
    # Scores of a text in the slot that was empty.
    logs = expected[1] - np.log(np.exp(expected[1]).sum(axis=1, keepdims=True))
    for begin, count in ((0, 3), (3, 3), (6, 1)):
        targets = np.full((CHUNK, 1), -1)
        targets[:count, 0] = tokens[1, begin + 1 : begin + 1 + count]
        part = tokens[1, begin : begin + count]
        found = calls.chunk("score", 1, begin, part, score_targets=targets)[:, 0]
        wanted = logs[np.arange(begin, begin + count), targets[:count, 0]]
        assert relative_error(found[:count], wanted) < TOLERANCE
        assert not found[count:].any()
