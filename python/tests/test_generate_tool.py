# ===- test_generate_tool.py - optimus-generate ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-generate says what optimus-run generates, as text."""

import io
import json
import shutil
import subprocess
import sys
import types

import pytest

from optimus.arguments import Mistake
from optimus.generate import __main__ as tool
from optimus.text.codec import Codec
from tools import Model, has_tokenizers, mpirun, succeed

MODEL = Model(1, 32, 2, sequence=48, vocabulary=256, batch=2, init_std=0.3)
WIDE = MODEL._replace(vocabulary=304)
EXTENTS = "slots=2,context=48,chunk=5"
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% endfor %}a:"

needs_tokenizers = pytest.mark.skipif(
    not has_tokenizers(), reason="no tokenizers: scripts/setup --python brings it"
)


@pytest.fixture(scope="module")
def library(tools, python_folder):
    return tools.library(MODEL, functions="loss", generate=EXTENTS)


@pytest.fixture(scope="module")
def state(tools, library, text, tmp_path_factory):
    return tools.initial(library, text, tmp_path_factory.mktemp("state") / "saved").folder


@pytest.fixture
def generate(tools, library, state):
    def run(*arguments, stdin="", prefix=(), library=library, state=state):
        command = tools.command("optimus-generate", library, "--load", state, *arguments)
        return subprocess.run(
            [*prefix, *command], input=stdin, capture_output=True, text=True, errors="replace"
        )

    return run


def answers(result):
    return [json.loads(line) for line in succeed(result).splitlines()]


def by_optimus_run(tools, library, state, *flags):
    said = tools.run("optimus-run", "generate", library, "--load", state, *flags)
    return [json.loads(line) for line in said.splitlines()]


def test_text_is_that_of_optimus_run(tools, library, state, generate):
    flags = ["--max-tokens", 20]
    expected = tools.command(
        *("optimus-run", "generate", library, "--load", state, "--bytes", "And God", *flags)
    )
    expected = subprocess.run(expected, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
    said = generate("And God", "--echo", *flags)
    assert succeed(said) == expected
    assert generate("-", "--echo", *flags, stdin="And God").stdout == expected
    drawn = ["--temperature", 1, "--top-k", 50, "--seed", 3]
    (one,) = by_optimus_run(tools, library, state, "--bytes", "God", *flags, *drawn, "--json")
    first, second = answers(generate("God", *flags, *drawn, "--n", 2, "--logprobs", 1))
    assert (first["tokens"], first["finish_reason"]) == (one["tokens"], "length")
    assert (first["index"], second["index"]) == (0, 1) and second["tokens"] != first["tokens"]
    assert len(first["logprobs"]) == len(first["top_logprobs"]) == 20
    beams = ["--beams", 2, "--length-penalty", 0.5]
    (one,) = by_optimus_run(tools, library, state, "--bytes", "God", *flags, *beams, "--json")
    (best,) = answers(generate("God", *flags, *beams, "--json"))
    assert best["tokens"] == one["tokens"] and best["text"]


def test_a_stop_is_a_text_across_tokens(generate):
    whole = succeed(generate("And God", "--max-tokens", 30))[:-1]
    stop = whole[12:15]
    at = whole.index(stop)
    result = generate("And God", "--max-tokens", 30, "--stop", stop, "--stop", "not there")
    assert succeed(result) == whole[:at] + "\n"
    (answer,) = answers(generate("And God", "--max-tokens", 30, "--stop", stop, "--json"))
    assert (answer["text"], answer["finish_reason"]) == (whole[:at], "stop")


@needs_tokenizers
def test_a_folder_has_the_tokenizer_and_the_template(
    tools, text, tokenizer_json, tmp_path, generate
):
    from optimus.text.codec import FileCodec

    library = tools.library(WIDE, functions="loss", generate=EXTENTS)
    state = tools.initial(library, text, tmp_path / "saved").folder
    (state / "tokenizer.json").write_bytes(tokenizer_json)
    wide = {"library": library, "state": state}
    codec = FileCodec(tokenizer_json, "tokenizer.json")

    def expect(prompt, *flags):
        file = tmp_path / "tokens.jsonl"
        file.write_text(json.dumps(prompt))
        (one,) = by_optimus_run(tools, library, state, "--tokens", file, *flags)
        return codec.decode(one["tokens"])

    flags = ["--max-tokens", 4]
    expected = expect(codec.encode("beginning"), *flags)
    assert succeed(generate("beginning", *flags, **wide)) == expected + "\n"
    refused = generate("beginning", "--chat", **wide)
    assert refused.returncode == 1 and "has no chat template: expected chat_t" in refused.stderr
    (state / "chat_template.jinja").write_text(TEMPLATE)
    chat = "s:beu:hia:"
    first = expect(codec.encode(chat), *flags)
    assert succeed(generate("hi", "--chat", "--system", "be", *flags, **wide)) == first + "\n"
    # Turn by turn, of one chat.
    second = expect(codec.encode(chat + first + "u:soa:"), *flags)
    turns = generate("--chat", "--system", "be", *flags, stdin="hi\nso\n", **wide)
    assert succeed(turns) == first + "\n" + second + "\n"
    # The ends of a text are the model's own.
    (whole,) = answers(generate("beginning", "--json", *flags, **wide))
    end = whole["tokens"][-1]
    (state / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    (answer,) = answers(generate("beginning", "--json", *flags, **wide))
    assert answer["tokens"] == whole["tokens"][: whole["tokens"].index(end)]
    assert answer["finish_reason"] == "stop"


def test_prompts_of_a_file(tools, library, state, tmp_path, generate):
    lines = [
        json.dumps("And"),
        json.dumps({"tokens": [5, 6, 7], "max_tokens": 4}),
        json.dumps({"prompt": "God", "temperature": 1.0, "seed": 9, "logit_bias": {"65": 3.5}}),
    ]
    theirs = [
        {"tokens": list(b"And"), "max_tokens": 6},
        {"tokens": [5, 6, 7], "max_tokens": 4},
    ]
    file = tmp_path / "tokens.jsonl"
    file.write_text("\n".join(map(json.dumps, theirs)))
    expected = by_optimus_run(tools, library, state, "--tokens", file)
    found = answers(generate("--prompts", "-", "--max-tokens", 6, stdin="\n".join(lines)))
    assert [one["tokens"] for one in found[:2]] == [one["tokens"] for one in expected]
    assert [one["prompt_tokens"] for one in found] == [3, 3, 3]
    for line, reason in {
        '{"prompt": "a", "best_of": 2}': "line 1: best_of is no option of a prompt",
        '{"prompt": "a", "tokens": [1]}': "expected one of prompt, tokens and messages",
        '{"prompt": "a", "seed": -1}': "seed: expected a whole number from 0 to",
        '{"prompt": "a", "logit_bias": {"x": 1}}': "logit_bias: expected numbers by tokens",
        '{"tokens": [256]}': "prompt 1: token 0 of the prompt is 256",
        "[1, 2": "line 1",
    }.items():
        refused = generate("--prompts", "-", stdin=line)
        assert refused.returncode == 1 and refused.stdout == ""
        assert reason in refused.stderr and refused.stderr.count("\n") == 1


def test_a_line_of_json_has_what_json_allows(tmp_path):
    """Characters at which Python splits lines, too."""
    texts = ["a\u2028b", "a\u0085b", "a\x7f\u2029"]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\r\n".join(json.dumps(each, ensure_ascii=False) for each in texts), newline="")
    options = tool._options(["lib.so", "--load", "x", "--prompts", str(file)])
    extents = types.SimpleNamespace(context=48)
    folder = types.SimpleNamespace(ends=[])
    model = types.SimpleNamespace(codec=Codec(), extents=extents, folder=folder)
    found = tool.Prompts(options, model).of_file(str(file))
    assert [bytes(request.prompt).decode() for request in found] == texts


def test_turns_of_a_chat(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return tool._turns()

    assert [*give("é\r\n\n\u2028 b".encode())] == ["é", "", "\u2028 b"]
    turns = give(b"a\nb\xff\n")
    assert next(turns) == "a"
    with pytest.raises(Mistake, match="standard input: line 2 is not UTF-8: byte 1"):
        next(turns)
    monkeypatch.setattr(tool, "MOST_TEXT", 4)
    assert [*give(b"abc\nd")] == ["abc", "d"]
    with pytest.raises(Mistake, match="line 1: expected at most 4 bytes"):
        next(give(b"abcdefgh"))


@pytest.mark.rotates
def test_ranks_are_threads_or_processes(tools, text, tmp_path, generate):
    library = tools.library(MODEL, "row:1,col:2", "megatron", functions="loss", generate=EXTENTS)
    state = tools.initial(library, text, tmp_path / "saved").folder
    ranks = {"library": library, "state": state}
    lines = [json.dumps({"prompt": "x" * n, "seed": n, "temperature": 1}) for n in range(1, 6)]
    flags = ["--prompts", "-", "--max-tokens", 9, "--logprobs", 2]
    whole = answers(generate(*flags, stdin="\n".join(lines), **ranks))
    flags += ["--stop", next(char for char in whole[1]["text"][2:] if char.isascii())]
    threads = succeed(generate(*flags, stdin="\n".join(lines), **ranks))
    processes = generate(*flags, stdin="\n".join(lines), prefix=mpirun(2), **ranks)
    assert succeed(processes) == threads
    assert len({one["finish_reason"] for one in map(json.loads, threads.splitlines())}) == 2
    # A mistake that rank 0 alone meets ends all.
    refused = generate("--prompts", "-", stdin="[", prefix=mpirun(2), **ranks)
    assert refused.returncode == 1 and refused.stderr.count("optimus-generate: error") == 1


@pytest.mark.rotates
@pytest.mark.parametrize(
    "arguments, reason",
    [
        ([], "expected a PROMPT, --prompts or --chat, found none"),
        (["a", "--prompts", "b"], "found both"),
        (["a", "--n", "0"], "--n: expected a number from 1 to"),
        (["a", "--logprobs", "1"], "--logprobs goes with --json"),
        (["a", "--max-tokens", "400"], "expected at most 48 new tokens"),
        ([""], "the prompt has no token"),
        (["a", "--top-p", "0"], "the top-p is 0"),
        (["a", "--tokenizer", "/nowhere"], "--tokenizer /nowhere: No such file"),
        (["--prompts", "/nowhere"], "cannot read /nowhere: No such file"),
        (["--chat", "--json"], "a chat of several turns is printed as text"),
    ],
)
def test_mistakes(generate, arguments, reason):
    refused = generate(*arguments)
    assert refused.returncode == 1 and refused.stdout == ""
    assert reason in refused.stderr and refused.stderr.count("\n") == 1


def test_what_cannot_generate_is_refused_with_what_would(tools, state, generate):
    library = tools.library(MODEL)
    refused = generate("a", library=library)
    assert refused.returncode == 1
    assert "--generate slots=1,context=N,chunk=N" in refused.stderr
    assert generate("a", state="/nowhere").returncode == 1


def test_adapters_beside_weights_that_moved(tools, state, generate, text, tmp_path):
    flags = ["--lora", "rank=2,alpha=8,targets=c_attn,c_proj"]
    library = tools.library(MODEL, None, "serial", *flags, functions="loss", generate=EXTENTS)
    base, adapters, merged = (tmp_path / name for name in ("base", "adapters", "merged"))
    shutil.copytree(state, base)
    given = ["--load-weights", base, "--lr", 0.1, "--save", adapters]
    tools.train(library, text, 3, *given, log=tmp_path / "log")
    tools.run("optimus-run", "convert", "--load", adapters, "--merge", "--save", merged)
    expected = succeed(generate("And God", state=merged))
    assert expected != succeed(generate("And God"))
    assert succeed(generate("And God", library=library, state=adapters)) == expected
    base.rename(tmp_path / "moved")
    refused = generate("And God", library=library, state=adapters)
    assert refused.returncode == 1 and "name it with --base" in refused.stderr
    moved = ["--base", tmp_path / "moved"]
    assert succeed(generate("And God", *moved, library=library, state=adapters)) == expected
