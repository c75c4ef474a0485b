# ===- runtime.py - The module of the runtime ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds `optimus._runtime`, which is C++ (runtime/python)."""

import importlib
from types import ModuleType

import optimus
from optimus.errors import UnavailableError


def module() -> ModuleType:
    """The module. Raises UnavailableError where it was not built, or is another version's."""
    try:
        found = importlib.import_module("optimus._runtime")
    except ModuleNotFoundError:
        raise UnavailableError(
            "expected the module optimus._runtime, found none in %s; build it "
            "(`ninja -C build optimus_python`, with python3-dev and pybind11-dev) and add "
            "build/python to PYTHONPATH" % ", ".join(optimus.__path__)
        ) from None
    except ImportError as error:
        raise UnavailableError("optimus._runtime cannot be loaded: %s" % error) from None
    if found.version != optimus.__version__:
        raise UnavailableError(
            "expected optimus._runtime of version %s, found %s in %s; build and install "
            "both from one tree" % (optimus.__version__, found.version, found.__file__)
        )
    return found
