# ===- verses.py - A text that Debian has -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The verses of the Bible, some 130 bytes each, as the package bible-kjv prints them."""

import shutil
import subprocess

from harness import fail

NUMBER = 31102


def verses():
    """All verses as bytes, each without its place."""
    program = shutil.which("bible")
    if program is None:
        fail("expected the program `bible` in PATH, found none; install the package bible-kjv")
    said = subprocess.run([program, "-f", "Gen1:1-Rev22:21"], capture_output=True, check=False)
    lines = [line.partition(b" ")[2] for line in said.stdout.splitlines()]
    if said.returncode != 0 or len(lines) != NUMBER:
        fail(f"expected {NUMBER} verses of {program}, found {len(lines)}: "
             f"{said.stderr.decode(errors='replace').strip()}")
    return lines
