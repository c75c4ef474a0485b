# ===- numpy_check.py - Machines without NumPy ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Says in one message how to install NumPy, before modules import it."""

import importlib
import sys

from optimus.errors import UnavailableError


def need_numpy() -> None:
    """Raises UnavailableError where NumPy cannot be loaded."""
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        # NumPy's own words are many, and in front of the reason.
        raise UnavailableError(
            "%s cannot load NumPy: %s; install it (Debian's python3-numpy, or `python3 -m "
            "pip install numpy`)" % (sys.executable, error.__cause__ or error)
        ) from None


def need_numpy_for(program: str) -> None:
    """Ends a program that cannot load NumPy, with exit code 1."""
    try:
        need_numpy()
    except UnavailableError as error:
        sys.exit("%s: error: %s" % (program, error))
