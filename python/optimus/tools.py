# ===- tools.py - Where the programs are ----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds the programs that are not Python's."""

import os
import shutil

import optimus
from optimus.errors import UnavailableError


def find_tool(name: str) -> str:
    """The path of a tool: in $OPTIMUS_BIN_DIR, beside this package, or in PATH.
    Raises UnavailableError."""
    given = os.environ.get("OPTIMUS_BIN_DIR")
    folders = [given] if given else [os.path.join(each, "bin") for each in optimus.__path__]
    for folder in folders:
        if os.access(os.path.join(folder, name), os.X_OK):
            # Others may look for it from another folder.
            return os.path.abspath(os.path.join(folder, name))
    found = None if given else shutil.which(name)
    if found:
        return found
    raise UnavailableError(
        "expected %s in %s, found none; build it (`ninja -C build %s`), or name its folder "
        "in OPTIMUS_BIN_DIR" % (name, given or "the package's folders or PATH", name)
    )
