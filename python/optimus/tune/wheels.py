# ===- wheels.py - Packages of PyPI for searches -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The wheels that `scripts/setup --tune` unpacks."""

import importlib
import os
import sys
from types import ModuleType

from optimus.tune import TuneError

CACHE = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, ".cache", "tune")


def load(module: str, what: str, remedy: str = "") -> ModuleType:
    """One of them, `what` for people. All are importable then, before installed packages,
    since they fit one another. Raises TuneError, with another `remedy` than to bring it."""
    cache = os.environ.get("OPTIMUS_TUNE_CACHE", CACHE)
    if os.path.isdir(cache) and cache not in sys.path:
        sys.path.insert(0, cache)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TuneError(
            "expected %s, found none (%s); scripts/setup --tune brings it%s"
            % (what, error, remedy)
        ) from None
