# ===- __init__.py - The optimus package -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Front ends of the Optimus compiler, and its runtime.

`compile` makes a Library of a model's program, and a Session trains and runs it
(docs/python.md). The builders (`optimus.models`) need the standard library alone; the
runtime is loaded, with NumPy, where it is first used.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, List

from optimus.errors import (
    ArgumentTypeError,
    CompileError,
    DataLossError,
    Error,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UsageError,
)

if TYPE_CHECKING:
    from optimus.compiler import Library, compile
    from optimus.generator import Generator, Score, Text
    from optimus.session import Evaluation, Session, Step, World
    from optimus.torch_program import TorchModel, from_torch

__version__ = "0.1.0"

__all__ = [
    "ArgumentTypeError",
    "CompileError",
    "DataLossError",
    "Error",
    "Evaluation",
    "Generator",
    "InternalError",
    "InvalidArgumentError",
    "Library",
    "ProgramError",
    "Score",
    "Session",
    "Step",
    "Text",
    "TorchModel",
    "UnavailableError",
    "UsageError",
    "World",
    "compile",
    "from_torch",
]

# In a build folder the module of the runtime has a folder of its own.
__path__ = pkgutil.extend_path(__path__, __name__)

_LAZY = {
    "Library": "optimus.compiler",
    "compile": "optimus.compiler",
    "Generator": "optimus.generator",
    "Score": "optimus.generator",
    "Text": "optimus.generator",
    "Evaluation": "optimus.session",
    "Session": "optimus.session",
    "Step": "optimus.session",
    "World": "optimus.session",
    "TorchModel": "optimus.torch_program",
    "from_torch": "optimus.torch_program",
}


class ProgramError(Error, ValueError):
    """A program that a model builder has put together wrongly."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError("module 'optimus' has no attribute '%s'" % name)
    if _LAZY[name] == "optimus.session":
        importlib.import_module("optimus.numpy_check").need_numpy()
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *_LAZY})
