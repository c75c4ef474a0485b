# ===- test_cache_pages.py - Caches of pages --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Texts whose slots share pages are those of slots with a context each, to the bit.

Prompts begin alike, some texts have beams, and some are cancelled wherever they are;
afterwards every page is free.
"""

import json
import os
import random
import re

import numpy as np
import pytest

from tools import EMULATED, LlamaModel, Model, call, mpirun, run_builder, succeed, verses

SLOTS, CONTEXT, CHUNK, PAGES = 4, 192, 32, 8
SLOTTED = "slots=%d,context=%d,chunk=%d" % (SLOTS, CONTEXT, CHUNK)
PAGED = SLOTTED + ",pages=%d" % PAGES
GPT2 = Model(1, 16, 2, sequence=CONTEXT, vocabulary=19, batch=2, init_std=0.3)
MISTRAL = LlamaModel(1, 24, 6, 3, 20, CONTEXT, 13, batch=2, window=70)
MANY, FEW = 200, 20
THREE = "slots=3,context=%d,chunk=%d" % (CONTEXT, CHUNK)
# Model, schedules, extents, pages, mesh and strategy. Of three slots on two rows one has
# the fewer pages of its row.
CASES = {
    "serial": (GPT2, MANY, SLOTTED, PAGES),
    "2x2": (GPT2, FEW, SLOTTED, PAGES, "row:2,col:2", "summa"),
    "padded": (GPT2, FEW, THREE, 6, "row:2,col:2", "summa"),
    "stationary": (GPT2, FEW, SLOTTED, PAGES, "row:2,col:2", "summa,decode=stationary"),
    "1x2": (GPT2, FEW, SLOTTED, PAGES, "row:1,col:2", "megatron"),
    "bf16": (GPT2, FEW, SLOTTED, PAGES, None, "serial", "--precision", "bf16"),
    "window": (MISTRAL, FEW, SLOTTED, PAGES),
}


def draw_requests(vocabulary, count):
    """As keyword arguments of `submit`; of three beginnings, some as long as pages."""
    draw = random.Random(5)
    tokens = lambda size: [draw.randrange(vocabulary) for _ in range(size)]
    beginnings = [tokens(160) for _ in range(3)]
    requests = []
    for number in range(count):
        size = draw.choice([1, 40, 64, 65, 96, 128, 129, 150])
        own = draw.choice([0, 3])
        prompt = draw.choice(beginnings)[: size - min(own, size - 1)]
        request = {"prompt": prompt + tokens(size - len(prompt))}
        request["max_tokens"] = draw.randint(1, 24)
        if number % 5 == 0:
            request["beams"] = 2
        else:
            request.update(logprobs=1, seed=number, temperature=draw.choice([0, 1.5]))
        requests.append(request)
    return requests


def said(text):
    return text.tokens, [score.logprob for score in text.scores]


def in_slots(session, requests):
    texts = [session.generator.submit(**request) for request in requests]
    while session.generator.has_work:
        session.generator.step()
    return [said(text) for text in texts]


def caches_of(tools, library):
    """Those buffers of a library; packed weights stay as long."""
    buffers = tools.buffers(library, "sequence")
    return [buffer for buffer in buffers if len(buffer["shape"]) == 4]


def bytes_of(buffer) -> int:
    return int(np.prod(buffer["shape"])) * {"f32": 4, "bf16": 2}[buffer["type"]]


def run_schedule(generator, requests, expected, pages, draw):
    """Some of the requests, perhaps twice, submitted and cancelled at random; the most
    pages that were shared at a time."""
    waiting = draw.choices(range(len(requests)), k=draw.randint(3, 8))
    running, shared = [], 0
    while waiting or generator.has_work:
        while waiting and draw.random() < 0.5:
            number = waiting.pop()
            running.append((number, generator.submit(**requests[number])))
        if running and draw.random() < 0.02:
            draw.choice(running)[1].cancel()
        generator.step()
        shared = max(shared, generator.counters["pages_shared"])
    for number, text in running:
        tokens, scores = expected[number]
        if text.finish == "cancelled":
            tokens, scores = tokens[: len(text.tokens)], scores[: len(text.scores)]
        assert said(text) == (tokens, scores), (number, requests[number])
    counters = generator.counters
    assert (counters["pages_held"], counters["pages_free"]) == (0, pages)
    return shared


@pytest.mark.variants
@pytest.mark.parametrize("case", CASES)
def test_no_token_differs_from_those_of_slots(optimus, tools, case, request):
    """With --long it is 2,000 schedules on one rank."""
    model, schedules, extents, pages, *flags = CASES[case]
    is_many = schedules == MANY
    if request.config.getoption("--long"):
        schedules *= 10
    requests = draw_requests(model.vocabulary, 30)
    libraries = [
        tools.library(model, *flags, functions=None, generate=each)
        for each in (extents, "%s,pages=%d" % (extents, pages))
    ]
    with optimus.Session(libraries[0], seed=4) as session:
        expected = in_slots(session, requests)
    draw = random.Random(7)
    caches = caches_of(tools, libraries[1])
    page = sum(bytes_of(cache) // pages for cache in caches)
    slots, own = caches[0]["shape"][0], caches[0]["local_shape"][0]
    # With pages on the host more texts are let in than there are pages for.
    for host_pages in (0, pages):
        shared = 0
        with optimus.Session(libraries[1], seed=4, host_pages=host_pages) as session:
            for _ in range(schedules // 2):
                shared += run_schedule(session.generator, requests, expected, pages, draw)
            counters = session.generator.counters
        assert shared > 0 and counters["shared_tokens"] > 0
        assert counters["pages_on_host"] == 0
        if host_pages == 0:
            assert counters["moved_pages"] == 0 == counters["host_bytes"]
            continue
        # The ranks of some slots have their share, and one more to exchange two.
        places = -(-slots // own) * (host_pages * own // slots + 1)
        assert counters["host_bytes"] == places * page
        if is_many:
            assert counters["moved_pages"] > 0


def test_prompts_that_begin_alike_are_taken_in_once(optimus, tools):
    """Equal ones whole, with a copy of the last page; others by whole pages of chunks,
    but for the last token."""
    library = tools.library(GPT2, functions=None, generate=PAGED)
    prompt = [number * number % 19 for number in range(129)]
    with optimus.Session(library, seed=4) as session:
        generator = session.generator
        first, second, third = (
            generator.submit(tokens, max_tokens=20)
            for tokens in (prompt, prompt, prompt[:128])
        )
        most = 0
        while generator.has_work:
            generator.step()
            most = max(most, generator.counters["pages_held"])
        assert first.tokens == second.tokens
        counters = generator.counters
        assert counters["shared_tokens"] == 129 + 64
        assert counters["prompt_tokens"] == 128 + 64
        assert most == 2 + 1 + 1 + 2
        # Nobody has them any more.
        list(session.generate(prompt, max_tokens=1))
        assert generator.counters["prompt_tokens"] == 128 + 64 + 128


def test_beams_copy_the_last_page_alone(optimus, tools):
    """Two beams have the two whole pages of their prompt in common."""
    library = tools.library(GPT2, functions=None, generate=PAGED)
    prompt = [number * number % 19 for number in range(140)]
    with optimus.Session(library, seed=4) as session:
        text = session.generator.submit(prompt, max_tokens=40, beams=2)
        seen = set()
        while session.generator.has_work:
            session.generator.step()
            counters = session.generator.counters
            seen.add((counters["pages_held"], counters["pages_shared"]))
        assert len(text.tokens) == 40
    assert (4, 2) in seen
    assert max(held for held, _ in seen) == 4


def test_pages_behind_a_window_are_given_back(optimus, tools):
    """Two texts of four pages each go on side by side in four; then what is short shares
    its beginning as ever. A window of ten tokens and a chunk of 32 are on two at most."""
    model = LlamaModel(1, 24, 6, 3, 20, 256, 13, batch=2, window=10)
    extents = "slots=2,context=256,chunk=32"
    prompts = [[number * number % 13 for number in range(size)] for size in (150, 70, 70)]
    requests = [
        {"prompt": prompt, "max_tokens": count, "logprobs": 1}
        for prompt, count in zip(prompts, (100, 0, 3))
    ]
    said_by, counters = [], []
    for generate in (extents, extents + ",pages=4"):
        library = tools.library(model, functions=None, generate=generate)
        with optimus.Session(library, seed=4) as session:
            most = 0
            texts = [session.generator.submit(**request) for request in requests]
            while session.generator.has_work:
                session.generator.step()
                counters.append(session.generator.counters)
                most = max(most, counters[-1].get("pages_held", 0))
            said_by.append([said(text) for text in texts])
    assert said_by[0] == said_by[1]
    assert [len(tokens) for tokens, _ in said_by[0]] == [100, 256 - 70 + 1, 3]
    assert most == 4 and counters[-1]["pages_free"] == 4
    # Side by side, as in slots.
    assert counters[-1]["decodes"] < 200
    for flags in ((), EMULATED):
        how = {"functions": None, "generate": extents + ",pages=4"}
        library = tools.library(model, None, "serial", *flags, **how)
        manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
        entries = [each["entry"] for each in manifest["functions"]]
        windows = {entry["kind"]: entry.get("window") for entry in entries}
        assert [windows[kind] for kind in ("prefill", "decode", "score")] == [10] * 3


@pytest.mark.rotates
@pytest.mark.parametrize("strategy", ["summa", "summa,decode=stationary"])
def test_threads_and_processes_find_the_same_pages(tools, tmp_path, strategy):
    """Texts wait for pages, are forked, and have beams, over each transport."""
    whole = [number * number % 19 for number in range(100)]
    lines = [{"tokens": whole[:size], "beams": 1 + (size == 2)} for size in (90, 90, 2, 64, 70)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = ["--tokens", prompts, "--max-tokens", 8]
    extents = "slots=4,context=128,chunk=64"
    said = []
    for pages, start, backend in (
        ("", [], []),
        (",pages=4", [], []),
        (",pages=4", mpirun(4), ["--host-pages", 4]),
        (",pages=4", mpirun(4), ["--backend", "tcp"]),
    ):
        how = {"functions": None, "generate": extents + pages}
        library = tools.library(GPT2, "row:2,col:2", strategy, **how)
        command = tools.command("optimus-run", "generate", library, *flags, *backend)
        said.append(succeed(call([*start, *command])))
    assert len(said[0].splitlines()) == 5
    assert said == [said[0]] * 4


@pytest.mark.parametrize("given, expected", {
    "slots=2,context=100,chunk=8,pages=2": "expected whole pages of 64 tokens, as 128",
    "slots=4,context=128,chunk=8,pages=6": "expected as many for each of 4 slots, as 8",
    "slots=2,context=128,chunk=8,pages=6": "expected at most the 4 of 2 slots with 128",
    "slots=2,context=128,chunk=8,pages=0": "pages is 0; expected a number from 1",
    "slots=2,context=128,pages=2": "expected slots=N,context=N,chunk=N and perhaps pages=N",
}.items())
def test_extents_that_make_no_pages_are_refused(given, expected):
    model = "gpt2 --layers 1 --hidden 8 --heads 2 --seq 128 --vocab 19 --batch 1 --generate"
    result = run_builder(*model.split(), given)
    assert result.returncode == 1
    assert expected in result.stderr


def test_a_text_without_enough_pages_is_refused(optimus, tools):
    """At once, with what would do; and at most so many tokens are the default."""
    library = tools.library(GPT2, "row:2,col:2", "summa", functions=None, generate=(
        SLOTTED + ",pages=4"))
    with optimus.Session(library, seed=4) as session:
        message = (
            "a prompt of 100 tokens with 50 new ones needs 3 pages of 64 tokens; the slots "
            "of a rank have 2, and a library with pages=8 would have as many"
        )
        with pytest.raises(optimus.InvalidArgumentError, match=message):
            session.generate([1] * 100, max_tokens=50)
        with pytest.raises(optimus.InvalidArgumentError, match="needs 3 pages of 64"):
            session.generate([1] * 70, max_tokens=4, beams=2)
        with pytest.raises(optimus.InvalidArgumentError, match="2 beams, one a slot of a rank"):
            session.generate([1], max_tokens=4, beams=3)
        assert len(list(session.generate([1] * 100))) == 2 * 64 - 100 + 1


def test_pages_on_the_host_need_pages(optimus, tools):
    library = tools.library(GPT2, functions=None, generate=SLOTTED)
    with pytest.raises(
        optimus.InvalidArgumentError, match="host_pages: expected a library whose cache has pages"
    ):
        optimus.Session(library, host_pages=4)
    message = "--host-pages: expected a library whose cache has pages"
    flags = ["--tokens", os.devnull, "--host-pages", 4]
    assert message in tools.call("optimus-run", "generate", library, *flags).stderr
    library = tools.library(GPT2, "row:2,col:2", "summa", functions=None, generate=PAGED)
    message = "expected a page at least for the slots of each rank, 2 in all; found 1"
    with pytest.raises(optimus.InvalidArgumentError, match=message):
        optimus.Session(library, host_pages=1)


def test_a_library_says_what_pages_it_has(tools, tmp_path):
    library = tools.library(GPT2, functions=None, generate=PAGED)
    assert "of 192 tokens, 128 B a token, in 8 pages of 64" in tools.run(
        "optimus-run", "inspect", library
    )
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(3 * (json.dumps([1, 2, 3]) + "\n"))
    flags = ["--tokens", prompts, "--max-tokens", 5]
    lines = tools.run("optimus-run", "generate", library, *flags).splitlines()
    assert len(lines) == 3 and len(set(lines)) == 1
    scored = tools.run("optimus-run", "score", library, "--tokens", prompts)
    slotted = tools.library(GPT2, functions=None, generate=SLOTTED)
    assert tools.run("optimus-run", "score", slotted, "--tokens", prompts) == scored
    bench = tools.run("optimus-run", "bench", library, "--generate", "--rounds", 1)
    # As many as each slot has pages for.
    assert "pp128" in bench and "tg128 x 4" in bench


GPUS = {
    "captured": (None, "serial"),
    "eager": (None, "serial", "--eager"),
    "2x2": ("row:2,col:2", "summa"),
}


@pytest.mark.variants
@pytest.mark.parametrize("case", GPUS)
def test_the_kernels_of_a_gpu_find_pages(tools, tmp_path, case):
    """Texts wait for them, are forked, and have beams."""
    mesh, strategy, *eager = GPUS[case]
    whole = [number * number % 19 for number in range(65)]
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"tokens": whole[:size], "beams": 1 + (size == 2)} for size in (65, 65, 2, 3)]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model, extents = GPT2._replace(sequence=128), "slots=4,context=128,chunk=64"
    said = []
    for generate in (extents, extents + ",pages=4"):
        how = {"functions": None, "generate": generate}
        library = tools.library(model, mesh, strategy, *EMULATED, **how)
        flags = ["--tokens", prompts, "--max-tokens", 3, *eager]
        if mesh and "pages" in generate:
            flags += ["--host-pages", 4]
        command = tools.command("optimus-run", "generate", library, *flags)
        said.append(succeed(call(command, env=tools.fake_gpu())))
    assert said[0] == said[1] and len(said[0].splitlines()) == 4


def test_pages_hold_twice_the_texts_of_slots(tools, tmp_path):
    """In as many bytes, behind verses of the Bible."""
    prompts = tmp_path / "prompts.jsonl"
    tokens = [list(verse.encode()) for verse in verses("Gen2:5")]
    prompts.write_text("".join(json.dumps(verse) + "\n" for verse in tokens))
    model = Model(1, 16, 2, sequence=1024, vocabulary=256, batch=1)
    flags = ["--tokens", prompts, "--max-tokens", 32, "--rates"]
    held, bytes_held = [], []
    for extents in ("slots=2,context=1024", "slots=16,context=1024,pages=32"):
        library = tools.library(model, functions=None, generate=extents + ",chunk=64")
        result = tools.call("optimus-run", "generate", library, *flags)
        succeed(result)
        held.append(float(re.search(r"([\d.]+) texts a decode", result.stderr)[1]))
        bytes_held.append(sum(map(bytes_of, caches_of(tools, library))))
    assert held[1] >= 2 * held[0]
    assert bytes_held[0] == bytes_held[1]
