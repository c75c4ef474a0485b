# ===- wheels.py - Packages of PyPI for searches -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The wheels that `scripts/setup --tune` unpacks."""

import os
import sys

CACHE = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, ".cache", "tune")


def find() -> None:
    """They are importable then, before installed packages, since they fit one another."""
    cache = os.environ.get("OPTIMUS_TUNE_CACHE", CACHE)
    if os.path.isdir(cache) and cache not in sys.path:
        sys.path.insert(0, cache)
