# ===- test_generation_mistakes.py - Prompts that are refused -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Wrong prompts, texts and libraries of `optimus-run generate` and `score`: one message
each, exit code 1, and nothing printed."""

import json

import pytest

from generation_models import EXTENTS, MODELS
from published_configs import BERT
from tools import BertModel, command_line, run_builder


def test_scores_of_nothing_are_refused(tools, tmp_path):
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    file = tmp_path / "texts.jsonl"
    for text, message in [
        ([1], "prompt 1: expected at least two tokens"),
        ({"tokens": [1], "choices": [[]]}, "expected a choice of at least one token"),
        ({"tokens": [1], "choices": [[19]]}, "token 1 of the text is 19"),
        ({"tokens": [1], "choices": [[1] * 13]}, "expected at most the 12 of the context"),
        ({"tokens": [], "choices": [[1]]}, "at least one token before the choices"),
        ([1] * 14, "one behind them; --stride divides a longer text into windows"),
        ({"tokens": [1], "echo": True}, "echo: there is no such option"),
    ]:
        file.write_text(json.dumps(text))
        result = tools.call("optimus-run", "score", library, "--tokens", file)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
        assert message in result.stderr and result.stdout == ""
    file.write_text(json.dumps([1] * 14))
    for flags, message in [
        (("--context", 13), "--context: expected from 1 to the 12 tokens"),
        (("--context", 4, "--stride", 5), "--stride: expected from 1 to the 4 tokens"),
    ]:
        result = tools.call("optimus-run", "score", library, "--tokens", file, *flags)
        assert result.returncode == 1 and message in result.stderr


MISTAKES = {
    "beyond the context": ([list(range(13))], "prompt 1: the prompt has 13 tokens; expected at most the 12"),
    "too many": ([{"tokens": [1, 2], "max_tokens": 12}], "expected at most 11 new tokens"),
    "beyond the vocabulary": ([[1, 19]], "token 1 of the prompt is 19; expected one of the vocabulary's 19"),
    "no token": ([[]], "the prompt has no token"),
    "an option": ([{"tokens": [1], "best_of": 2}], "best_of: there is no such option"),
    "a temperature": ([{"tokens": [1], "temperature": -1}], "the temperature is -1"),
    "no tokens": ([{"max_tokens": 2}], "tokens"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(tools, tmp_path, name):
    prompts, expected = MISTAKES[name]
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    result = tools.call("optimus-run", "generate", library, "--tokens", file)
    assert result.returncode == 1 and result.stdout == ""
    assert expected in result.stderr and len(result.stderr.splitlines()) == 1


def test_other_libraries_are_refused(tools, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text("[1]\n")
    library = tools.library(MODELS["gpt2"])
    result = tools.call("optimus-run", "generate", library, "--tokens", file)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "has no function of the kind prefill" in result.stderr
    assert "--generate slots=1,context=N,chunk=N" in result.stderr
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    result = tools.call("optimus-run", "train", library, "--data", file, "--steps", 1)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1


def test_encoders_are_refused_by_what_they_have(tmp_path):
    encoder = BertModel(1, 16, 2, sequence=8, vocabulary=19, batch=2)
    (tmp_path / "config.json").write_text(json.dumps(dict(BERT, architectures=["BertModel"])))
    for flags in (["bert", *command_line(encoder)], ["from-hf", tmp_path, "--batch", 1]):
        refused = run_builder(*flags, "--generate", EXTENTS)
        assert refused.returncode == 1 and refused.stdout == ""
        assert "sees both sides of a token, and generates no text" in refused.stderr
        assert "bert --no-head" in refused.stderr and "/v1/embeddings" in refused.stderr


def test_tokens_are_in_a_file(tools):
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    result = tools.call("optimus-run", "generate", library, "--tokens", "1,2")
    advice = "No such file or directory; expected a file with lines such as [1, 2]"
    assert result.returncode == 1 and "cannot open 1,2: " + advice in result.stderr
