# ===- commands.py - Command lines of our tools -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What a tool and each of its subcommands take, by their pages of --help."""

import os
import subprocess
from pathlib import Path
from typing import Iterator, List, NamedTuple, Tuple

from optimus import help_page
from optimus.help_page import Option, Page

NUMBERS = {"FLOAT", "INT", "N", "NUMBER", "P", "R", "SECONDS", "SIZE", "UINT", "X"}


class Command(NamedTuple):
    words: Tuple[str, ...]
    """optimus-run, or optimus-run and train."""
    page: Page
    summary: str
    commands: List["Command"]

    @property
    def name(self) -> str:
        return self.words[0]

    @property
    def subcommand(self) -> str:
        return " ".join(self.words[1:])

    def walk(self) -> Iterator["Command"]:
        yield self
        for command in self.commands:
            yield from command.walk()


def read(binaries: Path, *words: str, summary: str = "") -> Command:
    """Raises ValueError where a tool has no page of help."""
    ended = subprocess.run(
        [str(binaries / words[0]), *words[1:], "--help"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, COLUMNS="80", LC_ALL="C.UTF-8"),
    )
    if ended.returncode != 0:
        raise ValueError("%s --help failed: %s" % (" ".join(words), ended.stderr.strip()))
    page = help_page.parse(ended.stdout)
    commands = [read(binaries, *words, name, summary=text) for name, text in page.commands]
    return Command(words, page, page.summary or summary, commands)


def takes_file(option: Option) -> bool:
    """Whether a value may be a path: numbers and chosen words are none."""
    return bool(option.value) and not option.choices and option.value not in NUMBERS
