# ===- test_arguments.py - Command lines of our programs --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Words and numbers of command lines, and ends of programs."""

import argparse
import os

import pytest

import synthetic_profile
from optimus import arguments
from optimus.arguments import Mistake
from optimus.data.__main__ import main as data
from optimus.report.__main__ import main as report
from optimus.tune.__main__ import main as tune


def test_numbers():
    def refused(kind, text):
        with pytest.raises(argparse.ArgumentTypeError) as found:
            kind(text)
        return str(found.value)

    port = arguments.whole_number_from(0, 65535)
    assert [port("0"), port("+80"), port("65535")] == [0, 80, 65535]
    assert refused(port, "65536") == "expected a number from 0 to 65535, found '65536'"
    assert refused(port, "1_0") == "expected a whole number, found '1_0'"
    count = arguments.whole_number_from(1)
    assert count("9" * 20) == 10**20 - 1
    assert refused(count, "0") == "expected a number from 1 on, found '0'"
    assert arguments.real_number("1e-3") == 1e-3
    assert refused(arguments.real_number, "x") == "expected a number, found 'x'"


def test_folders(tmp_path, monkeypatch, capfd):
    """What makes a folder does not make one with the name of standard output."""
    monkeypatch.chdir(tmp_path)
    synthetic_profile.write(tmp_path / "run.profile")
    for main, flag, given in (
        (data, "-o", ["merge", "one", "other"]),
        (data, "-o", ["prepare", "text", "--tokenizer=bytes"]),
        (tune, "-o", ["run", "search.toml"]),
        (tune, "-o", ["best", "search.study"]),
        (report, "-o", ["export", "run.profile", "--format=chakra"]),
        (report, "--tensorboard", ["run", "log.jsonl"]),
    ):
        assert main([*given, flag, "-"]) == 1, given
        said = capfd.readouterr().err
        assert "expected the name of a folder to make, found '-'" in said
    assert os.listdir(tmp_path) == ["run.profile"]


def test_a_misspelt_word_is_named_before_what_is_missing(capfd):
    parser = arguments.Parser(prog="tool")
    parser.add_argument("--version", action="version", version="1")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    make = commands.add_parser("make")
    make.add_argument("--tokenizer", required=True)
    make.add_argument("-o", "--output")
    make.add_argument("--least", type=float)
    make.add_argument("files", nargs="*")
    commands.add_parser("show")

    def refused(*given):
        with pytest.raises(Mistake) as found:
            parser.parse_args(given)
        return str(found.value)

    assert refused() == "expected a command, one of make, show (see --help)"
    assert refused("mkae") == (
        "there is no command 'mkae'; there are make, show; did you mean 'make'? (see --help)"
    )
    assert refused("--colour", "make") == "there is no option --colour (see --help)"
    assert refused("make", "--tokeniser=bytes") == (
        "there is no option --tokeniser; did you mean '--tokenizer'? (see --help)"
    )
    assert refused("make", "-p", "3") == "there is no option -p (see --help)"
    assert refused("make", "a").startswith("the following arguments are required: --tok")
    rest = ["--tok", "b", "-oFILE", "--least", "-2", "--", "--file"]
    options = parser.parse_args(["make", *rest])
    assert (options.tokenizer, options.output, options.least) == ("b", "FILE", -2.0)
    assert options.files == ["--file"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--version"])


class Wrong(Exception):
    """A program's own mistake."""


def test_outcomes(capfd):
    def outcome(error=None):
        def act():
            if error is not None:
                raise error

        return arguments.outcome("tool", act, Wrong), capfd.readouterr().err

    assert outcome() == (0, "")
    assert outcome(Mistake("no.")) == (1, "tool: error: no.\n")
    assert outcome(Wrong("no!")) == (1, "tool: error: no!\n")
    full = OSError(28, "No space left on device", "file")
    assert outcome(full) == (1, "tool: error: No space left on device: 'file'\n")
    code, said = outcome(ValueError("?"))
    assert code == 2 and said.startswith("Traceback") and "fault of ours" in said
    assert arguments.outcome("tool", lambda: 3) == 3
