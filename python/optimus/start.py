# ===- start.py - Tools of an installed wheel ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Becomes the tool whose name a wheel's command has: a program in this package's bin, or
a module of it."""

import os
import sys
from typing import NoReturn

import optimus

IN_PYTHON = ("generate", "report", "serve", "tune")


def main() -> NoReturn:
    name = os.path.basename(sys.argv[0])
    binaries = os.path.join(os.path.dirname(optimus.__file__), "bin")
    module = name.replace("optimus-", "")
    if module not in IN_PYTHON:
        program = os.path.join(binaries, name)
        os.execv(program, [program, *sys.argv[1:]])
    # The tools that it runs lie there.
    os.environ["PATH"] = binaries + os.pathsep + os.environ.get("PATH", os.defpath)
    command = [sys.executable, "-m", "optimus." + module]
    os.execv(sys.executable, [*command, *sys.argv[1:]])
