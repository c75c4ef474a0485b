# ===- test_generation.py - Texts, token by token ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-run generate`: prompts in chunks, one token after the other, slots.

Logits of tokens one by one are those of NumPy on the whole text, within the bound of
docs/equivalence.md for f32 (see test_forward.py).
"""

import json

import numpy as np
import pytest

from generation_models import (
    CHUNK,
    EXTENTS,
    LAYOUTS,
    MODELS,
    NEW,
    PROMPT,
    SLOTS,
    WHOLE,
    draw_prompts,
    generate,
    run_generate,
)
from sampling_reference import Sampling, choose, copied_share
from test_forward import reference, rounding_bound
from tools import EMULATED, Checkpoint, Model, call, mpirun, read_log, succeed


def check_answers(model, state, rounding, prompts, answers, logits):
    """Greedy ones, of all the tokens that the context has place for."""
    parameters = {k: v.astype(float) for k, v in state.parameters.items()}
    for prompt, answer, found in zip(prompts, answers, logits):
        assert answer["finish_reason"] == "length"
        assert answer["tokens"] == found.argmax(axis=1).tolist()
        whole = np.array([prompt + answer["tokens"][:-1]])
        assert found.shape == (NEW, model.vocabulary) and whole.shape == (1, WHOLE)
        expected, bound = rounding_bound(model, parameters, whole, rounding)
        assert np.linalg.norm(found - expected[0, PROMPT - 1 :]) <= bound
        # It would not excuse the logits of another place.
        assert bound < 1e-2 * np.linalg.norm(expected[0, 1:] - expected[0, :-1])


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy", [
    *LAYOUTS,
    pytest.param("row:1,col:2", "megatron-sp", marks=pytest.mark.rotates),
    # A rank has one token of a chunk, and one slot, or padding.
    pytest.param("data:2,row:2,col:1", "summa,decode=stationary", marks=pytest.mark.rotates),
    pytest.param("row:4,col:1", "summa", marks=pytest.mark.rotates),
])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_tokens_one_by_one_have_the_logits_of_the_whole(
    tools, states, tmp_path, name, mesh, strategy
):
    model = MODELS[name]
    state, rounding = states(name)
    library = tools.library(model, mesh, strategy, functions=None, generate=EXTENTS)
    # Two of three slots are live.
    prompts = draw_prompts(model, 2)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    check_answers(model, state, rounding, prompts, answers, logits)


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen3", "phi", "gpt_neox"])
def test_every_causal_family_generates(tools, states, tmp_path, name):
    model = MODELS[name]
    state, rounding = states(name)
    library = tools.library(model, functions=None, generate=EXTENTS)
    prompts = draw_prompts(model, 4)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    check_answers(model, state, rounding, prompts, answers, logits)


@pytest.mark.rotates
@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [
    ("row:2,col:3", "summa"),
    ("row:2,col:3", "summa,decode=stationary"),
    ("row:3,col:2", "summa"),
])
@pytest.mark.parametrize("name", ["mistral", "phi"])
def test_odd_shapes_on_odd_meshes(tools, states, tmp_path, name, mesh, strategy):
    """Three heads of keys, a window, rotated parts of heads; seven slots, and chunks that
    no mesh divides."""
    model = MODELS[name]
    state, rounding = states(name)
    extents = "slots=7,context=12,chunk=5"
    library = tools.library(model, mesh, strategy, functions=None, generate=extents)
    prompts = draw_prompts(model, 7)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    check_answers(model, state, rounding, prompts, answers, logits)


def test_tokens_depend_on_their_prompt_alone(tools, states, tmp_path):
    """Bits of logits, too: alone or beside others, in any slot, waiting or not."""
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    library = tools.library(model, functions=None, generate=EXTENTS)
    random = np.random.default_rng(9)
    prompts = [
        {
            "tokens": prompt[: random.integers(1, PROMPT + 1)],
            "max_tokens": int(random.integers(1, NEW + 1)),
            "temperature": float(random.choice([0, 1])),
            "seed": seed,
        }
        for seed, prompt in enumerate(draw_prompts(model, 9))
    ]
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    for order in (range(8, -1, -1), [4, 0, 8, 2], [3], [7]):
        own = [prompts[index] for index in order]
        again, found = generate(tools, library, state, tmp_path, own)
        for index, answer, bits in zip(order, again, found):
            assert answer == answers[index]
            assert bits.tobytes() == logits[index].tobytes()
    # Samples are not the most probable tokens.
    assert any(
        answer["tokens"] != found.argmax(axis=1).tolist()
        for answer, found in zip(answers, logits)
    )


SAMPLINGS = [
    Sampling(temperature=1.0, seed=7),
    Sampling(temperature=0.6, top_k=5, seed=2**64 - 1),
    Sampling(temperature=1.5, top_p=0.7),
    Sampling(temperature=1.2, min_p=0.2, repetition_penalty=1.3),
    Sampling(temperature=2.0, top_k=12, top_p=0.9, min_p=0.01, seed=3),
    Sampling(presence_penalty=0.5, frequency_penalty=0.25),
    Sampling(repetition_penalty=5.0),
    Sampling(temperature=0.9, repetition_penalty=0.7, frequency_penalty=-0.5, seed=4),
    Sampling(copying_penalty=0.01, copying_exceptions=(3, 5)),
    Sampling(temperature=0.8, copying_penalty=20.0, copying_source=[1, 1, 7, 8], seed=5),
]


def test_tokens_are_chosen_as_numpy_chooses_them(tools, states, tmp_path):
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    library = tools.library(model, functions=None, generate=EXTENTS)
    prompts = draw_prompts(model, len(SAMPLINGS))
    requests = [
        {
            "tokens": prompt,
            **{k: v for k, v in sampling._asdict().items() if v is not None},
        }
        for prompt, sampling in zip(prompts, SAMPLINGS)
    ]
    answers, logits = generate(tools, library, state, tmp_path, requests)
    for prompt, sampling, answer, found in zip(prompts, SAMPLINGS, answers, logits):
        new = []
        for row in found:
            new.append(choose(row, prompt, new, sampling))
        assert answer["tokens"] == new and len(new) == NEW
        assert answer["copied"] == copied_share(prompt, new, sampling)


@pytest.mark.variants
@pytest.mark.parametrize("strategy", ["summa", "summa,decode=stationary"])
def test_threads_and_processes_give_the_same_bits(tools, states, tmp_path, strategy):
    model = MODELS["llama"]
    state, _ = states("llama")
    library = tools.library(model, "row:2,col:2", strategy, functions=None, generate=EXTENTS)
    prompts = draw_prompts(model, 4)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    for flags, prefix in [
        (["--threads-per-rank", 2], []),
        ([], mpirun(4)),
        (["--backend", "tcp"], mpirun(4)),
    ]:
        again, found = generate(
            tools, library, state, tmp_path, prompts, *flags, prefix=prefix
        )
        assert again == answers
        assert [bits.tobytes() for bits in found] == [bits.tobytes() for bits in logits]


@pytest.mark.parametrize("eager", [False, True])
def test_an_emulated_gpu_gives_the_logits_of_a_processor(tools, states, tmp_path, eager):
    model = MODELS["gpt2"]
    state, rounding = states("gpt2")
    library = tools.library(
        model, "row:2,col:2", "summa", *EMULATED, functions=None, generate=EXTENTS
    )
    prompts = draw_prompts(model, 2)
    flags = ["--eager"] if eager else []
    answers, logits = generate(
        tools, library, state, tmp_path, prompts, *flags, env=tools.fake_gpu()
    )
    check_answers(model, state, rounding, prompts, answers, logits)


@pytest.mark.rotates
def test_the_keys_of_long_texts_are_divided_on_a_gpu(tools, tmp_path):
    """Into pieces of 128, of which a short text has one."""
    model = Model(1, 16, 2, sequence=320, vocabulary=19, batch=2, init_std=0.5)
    prompts, logits = tmp_path / "prompts.jsonl", tmp_path / "logits.npy"
    whole = [number * number % 19 for number in range(300)]
    prompts.write_text("".join("%s\n" % whole[:size] for size in (300, 5)))
    found = []
    for flags, env in (((), None), (EMULATED, tools.fake_gpu())):
        extents = "slots=2,context=320,chunk=64"
        library = tools.library(model, None, "serial", *flags, functions=None, generate=extents)
        given = ["--tokens", prompts, "--max-tokens", 3, "--logits", logits]
        succeed(call(tools.command("optimus-run", "generate", library, *given), env=env))
        found.append(np.load(logits))
    # Sums of some hundred products.
    assert np.abs(found[1] - found[0]).max() < 1e-5 * np.abs(found[0]).max()


#: Chosen by the five best, by all logits, and by a word that is seldom among the best.
REQUESTS = [
    {},
    {"temperature": 0.8, "top_k": 5, "seed": 3},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.9, "seed": 2},
    {"temperature": 2.0, "top_k": 7, "seed": 5},
    {"temperature": 1.0, "min_p": 0.1},
    {"repetition_penalty": 3.0},
    {"beams": 2},
]


def by_best(tools, states, tmp_path, requests, layout, flags=(), **how):
    """The answers of libraries without and with the five best tokens."""
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    prompts = draw_prompts(model, len(requests))
    lines = [{"tokens": prompt, **more} for prompt, more in zip(prompts, requests)]
    for extents in (EXTENTS, EXTENTS + ",best=5"):
        library = tools.library(model, *layout, *flags, functions=None, generate=extents)
        yield run_generate(tools, library, state, tmp_path, lines, **how)


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [*LAYOUTS, ("row:1,col:2", "megatron")])
def test_tokens_are_chosen_by_the_best(tools, states, tmp_path, mesh, strategy):
    """And are the same, also beside texts that need more."""
    for requests in (REQUESTS, REQUESTS[:3]):
        plain, best = by_best(tools, states, tmp_path, requests, (mesh, strategy))
        assert plain == best


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[:2])
def test_the_best_alone_come_back_from_a_gpu(tools, states, tmp_path, mesh, strategy):
    """Of each slot five logits and tokens a step, in place of a vocabulary's."""
    model = MODELS["gpt2"]
    counts = tmp_path / "counts.json"
    env = tools.fake_gpu(counts=counts)
    for request, numbers in ((REQUESTS[1], 10), (REQUESTS[3], model.vocabulary)):
        answers, copied = [], []
        for tokens in (3, 4):
            given = [{**request, "max_tokens": tokens}]
            made = by_best(tools, states, tmp_path, given, (mesh, strategy), EMULATED, env=env)
            for answer in made:
                answers.append(answer)
                copied.append(json.loads(counts.read_text())["copied_out"])
        assert answers[0] == answers[1] and answers[2] == answers[3]
        plain, best = copied[2] - copied[0], copied[3] - copied[1]
        if mesh is None:
            assert plain == 4 * SLOTS * model.vocabulary and best == 4 * SLOTS * numbers
        assert (best < plain) == (numbers == 10) and best <= plain


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[:2])
def test_a_decode_on_a_gpu_is_recorded_once(tools, states, tmp_path, mesh, strategy):
    """And repeated with other positions: more tokens launch, allocate and pin no more."""
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    library = tools.library(
        model, mesh, strategy, *EMULATED, functions=None, generate=EXTENTS
    )
    prompts = draw_prompts(model, 2)
    found = []
    for tokens in (4, NEW):
        counts = tmp_path / "counts.json"
        env = tools.fake_gpu(counts=counts)
        flags = ("--max-tokens", tokens)
        run_generate(tools, library, state, tmp_path, prompts, *flags, env=env)
        found.append(json.loads(counts.read_text()))
    few, many = found
    repeated = many["graph_launches"] - few["graph_launches"]
    assert repeated == NEW - 4
    for name in ("launches", "ever_allocated", "most_bytes"):
        assert many[name] == few[name] > 0, name
    assert many["ever_pinned"] == few["ever_pinned"]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[:2])
def test_a_narrow_library_keeps_narrow_caches(tools, states, tmp_path, mesh, strategy):
    model = MODELS["llama"]
    state, _ = states("llama")
    narrow = ("--precision", "bf16")
    library = tools.library(model, mesh, strategy, *narrow, functions="forward", generate=EXTENTS)
    # Keys and values of two layers, two heads of four channels.
    said = tools.run("optimus-run", "inspect", library)
    assert "cache: 3 slots of 12 tokens, 64 B a token" in said
    rounding = tools.rounding(library)
    prompts = draw_prompts(model, 4)
    answers, logits = generate(tools, library, state, tmp_path, prompts)
    parameters = {k: v.astype(float) for k, v in state.parameters.items()}
    for prompt, answer, found in zip(prompts, answers, logits):
        whole = np.array([prompt + answer["tokens"][:-1]])
        expected, bound = rounding_bound(model, parameters, whole, rounding)
        error = np.linalg.norm(found - expected[0, PROMPT - 1 :])
        # More than f32 would make, too.
        assert 1e-4 * np.linalg.norm(expected) < error <= bound


def test_a_library_for_generation_alone_has_no_training(tools):
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    kinds = {function["entry"]["kind"] for function in manifest["functions"]}
    # Weights are packed where the processor multiplies faster from them.
    assert kinds - {"prepare"} == {"prefill", "decode", "score"}
    lifetimes = {buffer["lifetime"] for buffer in manifest["buffers"]}
    assert lifetimes == {"parameter", "sequence", "call"}
    assert not any("saved" in buffer for buffer in manifest["buffers"]
                   if buffer["lifetime"] != "parameter")
    # Keys and values of two layers, 16 wide.
    said = tools.run("optimus-run", "inspect", library)
    assert "cache: 3 slots of 12 tokens, 256 B a token" in said


def test_a_rank_holds_narrow_weights_alone(tools, tmp_path):
    """Beside the table of tokens, vectors and positions, which are read in f32."""
    source = tools.program(MODELS["gpt2"], None, EXTENTS)
    library, report = tmp_path / "model.so", tmp_path / "report.json"
    tools.run("optimus-compile", source, "--precision", "bf16", "-o", library,
              "--report-json", report)
    planned = json.loads(report.read_text())["memory"]
    timed = ("bench", library, "--generate", "--rounds", 1, "--json")
    held = json.loads(tools.run("optimus-run", *timed))["memory"]["parameters"]
    shapes = dict(MODELS["gpt2"].parameter_shapes())
    # Of products: all matrices but that of positions.
    narrow = {name for name, shape in shapes.items() if len(shape) == 2} - {"wpe.weight"}

    def size(names, element):
        return sum(-(-element * int(np.prod(shapes[n])) // 64) * 64 for n in names)

    def panels(name):
        """64 columns each, and rows up to a multiple of 32."""
        rows, cols = shapes[name][::-1] if name == "wte.weight" else shapes[name]
        return 2 * (-(-rows // 32) * 32) * (-(-cols // 64) * 64)

    prepared = narrow - {"wte.weight"}
    expected = size(shapes, 4) + sum(map(panels, narrow)) - size(prepared, 4)
    assert held == planned["decode"]["parameters"] == expected
    # While they are loaded, one at a time is there in f32.
    loaded = planned["generation"]
    assert loaded["parameters"] == expected
    assert loaded["staging"] == max(size({name}, 4) for name in prepared)


def test_training_is_as_without_it(tools):
    model = MODELS["gpt2"]

    def functions(library):
        manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
        names = [buffer["name"] for buffer in manifest["buffers"]]
        kept = [
            function
            for function in manifest["functions"]
            if function["entry"]["kind"] not in ("prefill", "decode", "score")
        ]
        for function in kept:
            for arg in function["args"]:
                arg["buffer"] = names[arg["buffer"]]
        return kept

    plain = tools.library(model, "row:2,col:2", "summa")
    more = tools.library(model, "row:2,col:2", "summa", generate=EXTENTS)
    assert functions(more) == functions(plain)


def test_stops_and_lengths(tools, states, tmp_path):
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    library = tools.library(model, functions=None, generate=EXTENTS)
    (prompt,) = draw_prompts(model, 1)
    run = lambda *prompts: generate(tools, library, state, tmp_path, prompts)[0]
    (whole,) = run({"tokens": prompt, "temperature": 2.0, "seed": 3})
    tokens = whole["tokens"]
    assert len(tokens) == NEW and len(set(tokens)) > 2
    request = {"tokens": prompt, "temperature": 2.0, "seed": 3}
    # Of several tokens; and one that begins, but does not come.
    first, last = run(
        {**request, "stop": [tokens[3:5], [tokens[1], model.vocabulary - 1, 0]]},
        {**request, "max_tokens": 3},
    )
    begin = next(i for i in range(NEW) if tokens[i : i + 2] == tokens[3:5])
    assert (first["tokens"], first["finish_reason"]) == (tokens[:begin], "stop")
    assert (last["tokens"], last["finish_reason"]) == (tokens[:3], "length")


def score(tools, library, state, tmp_path, texts, *flags):
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps(text) + "\n" for text in texts))
    command = ("score", library, "--load", state.folder, "--tokens", file, *flags)
    said = tools.run("optimus-run", *command)
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS[:2])
def test_scores_are_log_probabilities(tools, states, tmp_path, mesh, strategy):
    model = MODELS["llama"]
    state, _ = states("llama")
    library = tools.library(model, mesh, strategy, functions=None, generate=EXTENTS)
    parameters = {k: v.astype(float) for k, v in state.parameters.items()}

    def expect(tokens):
        logits = reference(model, parameters).logits(np.array([tokens]))[0]
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logs[np.arange(len(tokens) - 1), tokens[1:]]

    # One token more than the context, which is put nowhere, and fewer than a chunk.
    texts = [prompt[:size] for prompt, size in zip(
        draw_prompts(model, 5, size=WHOLE + 1), (WHOLE + 1, 2, 3, 4, WHOLE))]
    scored = score(tools, library, state, tmp_path, texts)
    for tokens, found in zip(texts, scored):
        logs = expect(tokens)
        assert found["tokens"] == len(tokens) - 1
        np.testing.assert_allclose(found["log_probabilities"], logs, atol=1e-4)
        assert found["log_probability"] == pytest.approx(logs.sum(), abs=1e-3)
        assert found["perplexity"] == pytest.approx(np.exp(-logs.mean()), rel=1e-3)
    # Tokens that may follow, of several lengths.
    prompt, choices = texts[0][:6], [texts[4][:4], texts[2][:1], texts[4][5:11]]
    (found,) = score(tools, library, state, tmp_path, [{"tokens": prompt, "choices": choices}])
    sums = [expect(prompt + choice)[5:].sum() for choice in choices]
    means = [total / len(choice) for total, choice in zip(sums, choices)]
    np.testing.assert_allclose(found["log_probabilities"], sums, atol=1e-3)
    assert found["best"] == int(np.argmax(sums))
    assert found["best_by_length"] == int(np.argmax(means))
    # A text longer than the context, in windows.
    (tokens,) = draw_prompts(model, 1, size=31)
    for flags, context, stride in [
        (("--stride", 5), WHOLE, 5),
        (("--context", 7), 7, 7),
        (("--context", 8, "--stride", 1), 8, 1),
    ]:
        logs, asked = [], 1
        for begin in range(0, len(tokens), stride):
            end = min(begin + context + 1, len(tokens))
            if asked < end:
                logs += expect(tokens[begin:end])[asked - begin - 1 :].tolist()
                asked = end
        (found,) = score(tools, library, state, tmp_path, [tokens], *flags)
        assert found["tokens"] == len(logs) == 30
        np.testing.assert_allclose(found["log_probabilities"], logs, atol=1e-4)
        assert found["perplexity"] == pytest.approx(np.exp(-np.mean(logs)), rel=1e-3)


@pytest.mark.parametrize("mesh, strategy", LAYOUTS[:2])
def test_speeds_are_measured(tools, mesh, strategy):
    library = tools.library(
        MODELS["gpt2"], mesh, strategy, functions=None, generate=EXTENTS
    )
    command = ("bench", library, "--steps", 2, "--warmup", 1, "--json", "--function")
    report = json.loads(tools.run("optimus-run", *command, "decode"))
    assert report["function"] == "decode"
    # A token of each slot.
    seconds = report["ms"]["median"] / 1e3
    assert report["tokens_per_s"] * seconds == pytest.approx(SLOTS, rel=1e-3)
    # Of tables and vectors a token reads a row; SUMMA's ranks share B of products.
    elements = sum(
        np.prod(shape)
        for name, shape in MODELS["gpt2"].parameter_shapes()
        if len(shape) == 2 and not name.startswith("wpe")
    )
    cache = SLOTS * WHOLE / 2 * 2 * 2 * 16
    if mesh is None:
        assert report["bytes_read"] == 4 * (elements + cache)
    else:
        assert report["bytes_read"] > 4 * (elements + cache)
    report = json.loads(tools.run("optimus-run", *command, "prefill"))
    seconds = report["ms"]["median"] / 1e3
    assert report["tokens_per_s"] * seconds == pytest.approx(CHUNK, rel=1e-3)
    assert "bytes_read" not in report


def test_generation_is_timed_beside_a_plain_sum(tools):
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    command = ("bench", library, "--generate", "--rounds", 2)
    some = ("--live", "2,1", "--json")
    assert list(json.loads(tools.run("optimus-run", *command, *some))["tests"]) == [
        "pp12", "tg12 x 2", "tg12"]
    short = json.loads(tools.run("optimus-run", *command, "--prompt", 5, "--json"))
    assert list(short["tests"]) == ["pp5", "tg12", "tg12 x 3"]
    failed = tools.call("optimus-run", *command, "--live", 4)
    assert failed.returncode == 1 and "from 1 to the 3 slots" in failed.stderr
    report = json.loads(tools.run("optimus-run", *command, "--json"))
    tests = report["tests"]
    # A prompt and an answer of 512 and 128 tokens, where they have room.
    assert list(tests) == ["pp12", "tg12", "tg12 x 3"]
    assert all(len(test["tokens_per_s"]) == 2 and test["median"] > 0 for test in tests.values())
    # Keys and values of half the context, of two layers.
    cache = tests["tg12 x 3"]["bytes_read"] - tests["tg12"]["bytes_read"]
    assert cache == 2 * WHOLE / 2 * 2 * 2 * 16 * 4
    rate = np.median(report["sum_bytes_per_s"])
    for name, slots in (("tg12", 1), ("tg12 x 3", SLOTS)):
        test = tests[name]
        read = test["median"] / slots * test["bytes_read"]
        assert test["share_of_sum"] == pytest.approx(read / rate)
    lines = tools.run("optimus-run", *command).splitlines()
    assert lines[0].split()[:2] == ["model", "params"] and len(lines) == 6
    failed = tools.call("optimus-run", *command, "--function", "decode")
    assert failed.returncode == 1 and "--generate excludes --function" in failed.stderr


def test_bytes_are_printed_as_text(tools, text, tmp_path):
    model = Model(1, 16, 2, sequence=16, vocabulary=256, batch=4)
    library = tools.library(model, generate="slots=1,context=16,chunk=4")
    folder = tmp_path / "state"
    tools.train(library, text, 3, "--save", folder, log=tmp_path / "log")
    command = ("generate", library, "--load", folder, "--max-tokens", 5)
    said = tools.run("optimus-run", *command, "--bytes", "the sea")
    assert said.startswith("the sea") and said.endswith("\n")
    (answer,) = tools.run("optimus-run", *command, "--bytes", "the sea", "--json").splitlines()
    answer = json.loads(answer)
    assert answer["prompt_tokens"] == 7 and len(answer["tokens"]) == 5
    assert answer["text"] == bytes(answer["tokens"]).decode(errors="replace")
    # A stop is text, too.
    stop = chr(answer["tokens"][0])
    (ended,) = tools.run(
        "optimus-run", *command, "--bytes", "the sea", "--json", "--stop", stop
    ).splitlines()
    assert json.loads(ended)["finish_reason"] == "stop"


def test_a_model_in_training_writes_samples(tools, tmp_path):
    """Beside which it trains as without them, to the bit."""
    model = MODELS["gpt2"]
    library = tools.library(model, "row:2,col:2", "summa", generate=EXTENTS)
    tokens, prompts = tmp_path / "tokens.bin", tmp_path / "prompts.jsonl"
    values = np.random.default_rng(8).integers(0, model.vocabulary, 600)
    values.astype(np.uint16).tofile(tokens)
    prompts.write_text('[1, 2, 3, 4]\n{"tokens": [5], "max_tokens": 2}\n')
    command = ("--sample-every", 2, "--sample-tokens", prompts)
    folder, log = tmp_path / "state", tmp_path / "sampled.log"
    plain = tools.train(library, tokens, 4, log=tmp_path / "plain.log")
    run = tools.train_command(library, tokens, 4, *command, "--save", folder, log=log)
    said = succeed(call(run))
    sampled = read_log(log)
    assert len(sampled) == 4
    for line, same in zip(sampled, plain):
        assert (line["loss"], line["grad_norm"]) == (same["loss"], same["grad_norm"])
    samples = [line.get("samples") for line in sampled]
    assert samples[0] is None and samples[2] is None
    for step in (2, 4):
        for text in samples[step - 1]:
            assert "step %d: %s" % (step, json.dumps(text, separators=(",", ":"))) in said
    # As the saved model generates.
    answers, _ = generate(tools, library, Checkpoint(folder), tmp_path, [
        [1, 2, 3, 4], {"tokens": [5], "max_tokens": 2}])
    assert [answer["tokens"] for answer in answers] == samples[3]
    assert [len(text) for text in samples[1]] == [WHOLE - 4 + 1, 2]
    # A library without the functions, prompts without a place, and no prompt.
    for other, flags, message in [
        (tools.library(model), command, "has no function of the kind prefill"),
        (library, ("--sample-every", 2), "--sample-bytes or --sample-tokens"),
        (library, ("--sample-every", 2, "--sample-bytes", "A"), "token 0 of the prompt is 65"),
    ]:
        result = tools.call("optimus-run", "train", other, "--data", tokens, "--steps", 1, *flags)
        assert result.returncode == 1 and message in result.stderr
