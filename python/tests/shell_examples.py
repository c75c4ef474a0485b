# ===- shell_examples.py - The commands that pages show ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the blocks of shell commands in pages of Markdown, and runs them.

    <!-- in tests: --layers 4 = --layers 1, --steps 300 = --steps 2 -->
    ```sh
    …
    ```

A comment before a block names the substitutions by tests, so as not to take long.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import List, NamedTuple

from tools import REPOSITORY, TIMEOUT_SECONDS


class Block(NamedTuple):
    line: int
    shown: str
    """As the page has it."""
    run: str
    """As tests run it."""


def shell_blocks(text: str) -> List[Block]:
    found = []
    pattern = r"(?:^<!-- in tests: ([^\n]*) -->\n)?^```sh\n(.*?)^```$"
    for match in re.finditer(pattern, text, re.M | re.S):
        stand_ins, shown = match.groups()
        run = shown
        for pair in stand_ins.split(", ") if stand_ins else []:
            what, place = pair.split(" = ")
            assert what in shown, "no '%s' in the block after '%s'" % (what, stand_ins)
            run = run.replace(what, place)
        found.append(Block(text.count("\n", 0, match.start()) + 1, shown, run))
    return found


def make_checkout(folder: Path, binaries: Path) -> None:
    """The parts of a built repository needed by commands."""
    (folder / "build").mkdir(parents=True)
    (folder / "python").symlink_to(REPOSITORY / "python")
    for part in ("bin", "lib"):
        (folder / "build" / part).symlink_to(binaries.resolve().parent / part)


def run_shell(commands: str, folder: Path, **environment) -> str:
    """Standard output of commands all of which must succeed."""
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A model may write bytes that are no characters.
        errors="replace",
        # Of many commands.
        timeout=4 * TIMEOUT_SECONDS,
    )
    assert result.returncode == 0, "%s\n%s" % (commands, result.stderr[-4000:])
    return result.stdout
