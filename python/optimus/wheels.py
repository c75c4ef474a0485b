# ===- wheels.py - Packages of PyPI for those who ask for them -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Packages that one command needs: installed ones, or wheels that `scripts/setup` unpacks
and does not install."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from optimus.arguments import Mistake

CACHES = {
    "--python": ("OPTIMUS_PYTHON_CACHE", ".cache/python"),
    "--python=full": ("OPTIMUS_PYTHON_FULL_CACHE", ".cache/python-full"),
}
"""By the flag of scripts/setup: what names the folder, and where it is otherwise."""


def load(name: str, purpose: str, flag: str = "--python") -> ModuleType:
    """A module of a package, which `purpose` says the use of. An installed one comes
    first. Raises Mistake."""
    variable, usual = CACHES[flag]
    repository = Path(__file__).resolve().parents[2]
    cache = os.environ.get(variable, str(repository / usual))
    sys.path.append(cache)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise Mistake(
            "cannot import %s, which %s: %s; scripts/setup %s brings it, or python3 -m pip "
            "install %s" % (package, purpose, error, flag, package)
        ) from None
    finally:
        sys.path.remove(cache)
