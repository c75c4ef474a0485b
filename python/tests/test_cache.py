# ===- test_cache.py - Prefill and decode with a cache --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A sequence token by token, its keys and values in a cache, has the logits of the whole.

`@prefill` takes 5 tokens and `@decode` one, seven times; two of three slots are live. The
interpreters execute both, on all levels, and NumPy all 12 tokens at once.
"""

import numpy as np
import pytest

from interpreter import Interpreter, draw_parameters, relative_error
from llama_reference import Llama
from optimus.generation import CachedFunction, Generation
from optimus.ir import module_text
from optimus.models import llama
from test_gradients import TOLERANCE
from tools import LlamaModel

SLOTS, CAPACITY, PROMPT, WHOLE = 3, 16, 5, 12
LIVE = np.array([True, False, True])
MODEL = LlamaModel(
    2, hidden=16, heads=4, kv_heads=2, ffn=22, sequence=WHOLE, vocabulary=19, batch=SLOTS
)
WINDOWS = {"whole": None, "window": 4}
LAYOUTS = {
    "serial": [],
    "2x2": ["--mesh", "row:2,col:2"],
    "1x4": ["--mesh", "row:1,col:4", "--strategy", "megatron"],
}


def program(window):
    """@prefill and @decode of one module."""
    functions = []
    members = MODEL._replace(window=window)._asdict()
    config = llama.Config(head_width=members.pop("head_dim"), **members)
    extents = Generation(SLOTS, CAPACITY, PROMPT)
    for kind, count in (("prefill", PROMPT), ("decode", 1)):
        beside = functions[0] if functions else None
        # Unlike the builders' @prefill this one has logits, too.
        make = lambda model: CachedFunction(kind, count, extents, model, beside)
        functions.append(llama.build(config, make))
    return module_text(functions)


class Calls:
    """Calls of the two functions with the caches that the calls before have left."""

    def __init__(self, run, parameters):
        self._run, self._arguments, self._filled = run, dict(parameters), 0
        for layer in range(MODEL.layers):
            for part in ("keys", "values"):
                shape = (SLOTS, CAPACITY, MODEL.kv_heads, MODEL.hidden // MODEL.heads)
                name = "model.layers.%d.self_attn.%s" % (layer, part)
                self._arguments[name] = np.zeros(shape)

    def __call__(self, function, tokens):
        """The logits of tokens; empty slots have none."""
        count = tokens.shape[1]
        places = self._filled + np.arange(count)
        self._filled += count
        self._arguments[function + "_tokens"] = tokens
        self._arguments[function + "_positions"] = np.where(LIVE[:, None], places, -1)
        self._arguments["lengths"] = np.where(LIVE, self._filled, 0)
        results = self._run(function, self._arguments)
        logits = results.pop("next_logits")
        assert results.keys() <= self._arguments.keys() and len(results) == 2 * MODEL.layers
        for name, cache in results.items():
            self.check(cache)
            self._arguments[name] = cache
        return logits[LIVE]

    def check(self, cache):
        assert not cache[~LIVE].any() and not cache[:, self._filled :].any()


def generate(run, parameters, tokens):
    call = Calls(run, parameters)
    logits = [call("prefill", tokens[:, :PROMPT])]
    for place in range(PROMPT, WHOLE):
        logits.append(call("decode", tokens[:, place : place + 1]))
    return np.concatenate(logits, axis=1)


@pytest.fixture(scope="module")
def sequences():
    random = np.random.default_rng(11)
    return draw_parameters(MODEL), random.integers(0, MODEL.vocabulary, (SLOTS, WHOLE))


def expected(parameters, tokens, window):
    numpy = Llama(parameters, MODEL.heads, MODEL.kv_heads, window=window)
    return numpy.logits(tokens)[LIVE]


@pytest.mark.variants
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_one_by_one_have_the_logits_of_the_whole(
    tools, tmp_path, sequences, layout, window
):
    parameters, tokens = sequences
    source, lowered = tmp_path / "cached.mlir", tmp_path / "lowered.mlir"
    source.write_text(program(WINDOWS[window]))
    options = [*LAYOUTS[layout], "--compile-to", "fuse", "-o", lowered]
    tools.run("optimus-compile", source, *options)
    interpreter = Interpreter(tools, tmp_path)
    found = generate(
        lambda function, arguments: interpreter.run(lowered, function, arguments),
        parameters,
        tokens,
    )
    assert relative_error(found, expected(*sequences, WINDOWS[window])) < TOLERANCE


@pytest.mark.variants
@pytest.mark.parametrize("layout", LAYOUTS)
def test_commands_do_what_the_program_says(tools, tmp_path, sequences, layout):
    """In f32, and keys and values written where they lie."""
    parameters, tokens = sequences
    source, placed = tmp_path / "cached.mlir", tmp_path / "placed.mlir"
    source.write_text(program(None))
    options = [*LAYOUTS[layout], "--compile-to", "place", "-o", placed]
    tools.run("optimus-compile", source, *options)
    text = placed.read_text()
    assert text.count("exec.launch @cache_append_") == 2 * 2 * MODEL.layers
    assert text.count("exec.attention ") == 2 * MODEL.layers
    interpreter = Interpreter(tools, tmp_path)

    def run(function, arguments):
        narrow = {
            name: value if np.issubdtype(value.dtype, np.integer) else value.astype(np.float32)
            for name, value in arguments.items()
        }
        return interpreter.run(placed, function, narrow)

    found = generate(run, parameters, tokens)
    # Commands are interpreted in f64; parameters and caches pass as f32.
    assert relative_error(found, expected(*sequences, None)) < 1e-5


class PagedCalls(Calls):
    """Each live slot has a page of its ranks, not its own where there is another."""

    PAGES = 3

    def check(self, cache):
        assert not cache[0].any() and not cache[:, self._filled :].any()
        assert cache[1:, : self._filled].any(axis=(2, 3)).all()

    def __init__(self, run, parameters):
        super().__init__(run, parameters)
        for name, value in self._arguments.items():
            if name.endswith((".keys", ".values")):
                self._arguments[name] = np.zeros((SLOTS, 64, *value.shape[2:]))
        # Counted from a slot's own.
        self._arguments["pages"] = np.array([[1, 0], [0, 0], [0, 0]])


@pytest.mark.variants
@pytest.mark.parametrize(
    "layout, level", [("serial", "place"), ("2x2", "fuse"), ("2x2", "place")]
)
def test_pages_are_found_by_their_table(tools, tmp_path, sequences, layout, level):
    parameters, tokens = sequences
    source, lowered = tmp_path / "paged.mlir", tmp_path / "lowered.mlir"
    extents = Generation(SLOTS, 128, PROMPT, PagedCalls.PAGES)
    config = MODEL._asdict()
    config = llama.Config(head_width=config.pop("head_dim"), **config)
    make = lambda model: CachedFunction("decode", 1, extents, model, None)
    source.write_text(module_text([llama.build(config, make)]))
    options = [*LAYOUTS[layout], "--compile-to", level, "-o", lowered]
    tools.run("optimus-compile", source, *options)
    interpreter = Interpreter(tools, tmp_path)

    def run(function, arguments):
        narrow = lambda value: value if value.dtype.kind == "i" else value.astype(np.float32)
        if level == "place":
            arguments = {name: narrow(value) for name, value in arguments.items()}
        return interpreter.run(lowered, function, arguments)

    call = PagedCalls(run, parameters)
    logits = [call("decode", tokens[:, place : place + 1]) for place in range(WHOLE)]
    bound = TOLERANCE if level == "fuse" else 1e-5
    found = np.concatenate(logits, axis=1)
    assert relative_error(found, expected(*sequences, None)) < bound
