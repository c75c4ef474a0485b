# ===- test_pages.py - Manual pages and completion ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Pages of --help are read whole, and every flag is in the manual page and in the
completion of each shell."""

import gzip
import re
from pathlib import Path
from typing import Dict, List

import pytest

from optimus import help_page
from optimus.help_page import Option
from test_install import PROGRAMS, SCRIPTS
from tools import REPOSITORY, call, succeed

TOOLS = ["optimus-" + name for name in PROGRAMS + SCRIPTS]

OF_CLI11 = """Train a model
Usage: x train [OPTIONS] library

Positionals:
  library TEXT REQUIRED     Model library

Options:
  -h,--help                 Print this, as --not-this
  -o,--output FILE REQUIRED
                            Where to write
  --save-async,--no-save-async{false} Needs: --save Excludes: --all
                            Write --nor-this
  --schedule NAME=constant  How
  --layout PATTERN=AXES ...
                            Where

Of MLIR, for those who look; --help-hidden says more:
  --mlir-timing  --mlir-display=<value>
"""

OF_LLVM = """optimus-x 0.1.0 (LLVM 22.1.8): helps

usage: optimus-x [options] [FILE.mlir]

  -o <file>                 Where
  --help                    Print this
"""

OF_ARGPARSE = """usage: x [-h]
         [--order {placed,fcfs}]
         COMMAND ...

Search.

positional arguments:
  COMMAND
    run       run the trials,
              or go on
    show      what came

options:
  -h, --help            show this
  --order {placed,fcfs}
                        placed: one; fcfs: other
  -o STUDY, --output STUDY
                        the folder
"""


def test_a_page_of_cli11():
    page = help_page.parse(OF_CLI11)
    assert page.summary == "Train a model"
    assert page.usage == "x train [OPTIONS] library"
    assert [section.title for section in page.sections] == [
        *("Positionals", "Options", "Of MLIR, for those who look")
    ]
    assert page.options == [
        Option(("library",), "", (), "required", "Model library"),
        Option(("-h", "--help"), "", (), "", "Print this, as --not-this"),
        Option(("-o", "--output"), "FILE", (), "required", "Where to write"),
        Option(
            ("--save-async", "--no-save-async"),
            *("", (), "needs --save, not with --all", "Write --nor-this"),
        ),
        Option(("--schedule",), "NAME", (), "default: constant", "How"),
        Option(("--layout",), "PATTERN=AXES", (), "may be given again", "Where"),
        Option(("--mlir-timing",), "", (), "", ""),
        Option(("--mlir-display",), "value", (), "", ""),
    ]


def test_a_page_of_llvm():
    page = help_page.parse(OF_LLVM)
    assert page.summary == "helps"
    assert page.flags == [
        Option(("-o",), "file", (), "", "Where"),
        Option(("--help",), "", (), "", "Print this"),
    ]


def test_a_page_of_argparse():
    page = help_page.parse(OF_ARGPARSE)
    assert page.summary == "Search."
    assert page.commands == [("run", "run the trials, or go on"), ("show", "what came")]
    order = Option(("--order",), "{placed,fcfs}", ("placed", "fcfs"), "", "placed: one; fcfs: other")
    assert page.options == [
        Option(("-h", "--help"), "", (), "", "show this"),
        order,
        Option(("-o", "--output"), "STUDY", (), "", "the folder"),
    ]


def test_what_is_no_page_is_refused():
    with pytest.raises(ValueError, match="found no usage in 'Segmentation fault'"):
        help_page.parse("Segmentation fault")


@pytest.fixture(scope="module")
def share(tools, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    command = [str(REPOSITORY / "tools/pages/write-pages"), "--output", str(folder)]
    succeed(call(["/usr/bin/python3", *command, "--binaries", str(tools.binaries), *TOOLS]))
    return folder


def flags_of(tools, *words: str) -> Dict[str, List[str]]:
    """The flags of a tool and its subcommands, by lines that begin with one."""
    text = tools.run(*words, "--help")
    heads = re.findall(r"^ {2}(-\S.*?)(?:  |$)", text, re.M)
    listed = [re.findall(r"(?:^|[ ,])(-[a-z]\b|--[a-z][a-z0-9-]*)", head) for head in heads]
    # Others come behind Needs and Excludes.
    found = {" ".join(words[1:]): [name for names in listed for name in names]}
    below = re.findall(r"^Subcommands:\n(.*)", text, re.M | re.S)
    below += re.findall(r"^positional arguments:\n  COMMAND\n(.*?)\n\n", text, re.M | re.S)
    for name in re.findall(r"^ {2,4}([a-z]+)  ", "".join(below), re.M):
        found.update(flags_of(tools, *words, name))
    return found


@pytest.mark.rotates
@pytest.mark.parametrize("tool", TOOLS)
def test_every_flag_is_there(tools, share, tool):
    bash = (share / "bash-completion/completions" / tool).read_text()
    zsh = (share / "zsh/vendor-completions" / ("_" + tool)).read_text()
    fish = (share / "fish/vendor_completions.d" / (tool + ".fish")).read_text()
    page = gzip.decompress((share / "man/man1" / (tool + ".1.gz")).read_bytes()).decode()
    commands = flags_of(tools, tool)
    assert commands[""]
    for command, flags in commands.items():
        (words,) = re.findall(r"^    '%s\'\) .* -W '(.*?)' --" % command, bash, re.M)
        assert set(flags) <= set(words.split())
        seen = "__fish_seen_subcommand_from %s'" % command
        lines = [line for line in fish.splitlines() if not command or seen in line]
        for flag in flags:
            assert re.search(r"\)%s=?\[|\)?\*?%s=?\[" % (flag, flag), zsh)
            assert r"\fB%s\fR" % flag.replace("-", r"\-") in page
            kind = "-l" if flag.startswith("--") else "-s"
            assert any(" %s %s " % (kind, flag.lstrip("-")) in line for line in lines)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "line, found",
    [
        ("optimus-run ver", ["verify"]),
        ("optimus-run train gpt.so --save-d", ["--save-dtype"]),
        ("optimus-run train --schedule=", []),
        ("optimus-report export --format m", ["memory_viz", "minimalloc"]),
        ("optimus-compile gpt.mlir --mes", ["--mesh"]),
        ("optimus-compile --mesh --str", []),
    ],
)
def test_bash_completes(share, line, found):
    words = line.replace("=", " = ").split() + [""] * line.endswith("=")
    script = share / "bash-completion/completions" / words[0]
    ask = 'compopt() { :; }; source %s; COMP_CWORD=$(($# - 1)); COMP_WORDS=("$@"); _%s; echo "${COMPREPLY[@]}"'
    ask %= (script, words[0].replace("-", "_"))
    said = succeed(call(["bash", "-euc", ask, "bash", *words]))
    assert said.split() == found


def test_a_tool_that_fails_is_named(tmp_path):
    (tmp_path / "bad").write_text("#!/bin/sh\necho no such library >&2; exit 127\n")
    (tmp_path / "bad").chmod(0o755)
    command = ["/usr/bin/python3", str(REPOSITORY / "tools/pages/write-pages"), "bad"]
    ended = call([*command, "--binaries", str(tmp_path), "--output", str(tmp_path)])
    assert ended.returncode == 1
    assert ended.stderr == "write-pages: error: bad --help failed: no such library\n"
