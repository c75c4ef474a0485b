# ===- wheels.py - Packages of PyPI that are asked for on demand ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Imports packages of PyPI: installed ones, or those that scripts/setup unpacks."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any, List

FOLDERS = {
    "--python": ("OPTIMUS_PYTHON_CACHE", "python"),
    "--python=full": ("OPTIMUS_PYTHON_FULL_CACHE", "python-full"),
}
"""By the option of scripts/setup: what names its folder, and the one in .cache."""


def load(flag: str, *modules: str) -> List[Any]:
    """Raises ImportError."""
    variable, name = FOLDERS[flag]
    repository = Path(__file__).resolve().parents[2]
    cache = os.environ.get(variable, str(repository / ".cache" / name))
    sys.path.append(cache)
    try:
        return [importlib.import_module(module) for module in modules]
    finally:
        sys.path.remove(cache)


def advice(flag: str, package: str) -> str:
    return "scripts/setup %s brings it, or python3 -m pip install %s" % (flag, package)
