# ===- compiler.py - Model libraries ------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles programs to model libraries, by the program optimus-compile."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from optimus.errors import ArgumentTypeError, CompileError
from optimus.ir import LossFunction, module_text
from optimus.tools import find_tool

Program = Union[str, "os.PathLike[str]", LossFunction, Sequence[LossFunction]]
Flag = Union[str, int, float, bool, Sequence[str], None]


class Library:
    """A compiled model: a file, which a Session opens.

    `path` is the file, and `report` the data of `optimus-compile --report-json`
    (docs/optimus-compile.md), or None for a library from elsewhere.
    """

    def __init__(
        self, path: "Union[str, os.PathLike[str]]", report: Optional[Dict[str, Any]] = None
    ):
        self.path = Path(path)
        self.report = report
        self._folder: Optional[tempfile.TemporaryDirectory] = None

    @property
    def manifest(self) -> Dict[str, Any]:
        """What the library says of itself (docs/manifest.md)."""
        from optimus import runtime

        return json.loads(runtime.module().ModelLibrary(str(self.path), inspect=True).manifest)

    def __repr__(self) -> str:
        return "optimus.Library(%r)" % str(self.path)


def compile(
    model: Program,
    *,
    output: "Union[str, os.PathLike[str], None]" = None,
    mesh: Union[str, Mapping[str, int], None] = None,
    strategy: Optional[str] = None,
    target: Optional[str] = None,
    memory_budget: Optional[str] = None,
    **flags: Flag,
) -> Library:
    """Compiles a program to a model library.

    `model` is a file of the builders (`python3 -m optimus.models … -o gpt.mlir`), or a
    function of theirs, or several of one model. `output` is the library's file; without
    one it lies in a temporary folder as long as the Library lives.

    `mesh` is {"row": 2, "col": 2} or "row:2,col:2". The others are flags of
    optimus-compile, with _ for -: `accumulate=True` is --accumulate, and
    `layout=["*.wte.weight=row,", …]` is given once for each.

    Raises CompileError with the diagnostics where there is no library, and
    UnavailableError where there is no optimus-compile.
    """
    if isinstance(mesh, Mapping):
        mesh = ",".join("%s:%d" % axis for axis in mesh.items())
    named: Dict[str, Flag] = {
        **{"mesh": mesh, "strategy": strategy, "target": target},
        **{"memory_budget": memory_budget},
        **flags,
    }
    source, text = _source(model)
    folder = tempfile.TemporaryDirectory(prefix="optimus-")
    path = Path(output) if output is not None else Path(folder.name) / "model.so"
    report = Path(folder.name) / "report.json"
    command = [find_tool("optimus-compile"), source, *_flags(named)]
    command += ["--report-json", str(report), "-o", str(path)]
    ended = subprocess.run(
        command,
        **({"input": text} if text is not None else {"stdin": subprocess.DEVNULL}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if ended.returncode != 0:
        raise CompileError(_diagnostics(ended.stderr), command, ended.returncode)
    library = Library(path, json.loads(report.read_text()))
    library._folder = folder if output is None else None
    return library


def _source(model: Program) -> Tuple[str, Optional[str]]:
    """The program's argument, and what to send to standard input."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model), None
    functions = [model] if isinstance(model, LossFunction) else list(model)
    if functions and all(isinstance(each, LossFunction) for each in functions):
        return "-", module_text(functions)
    raise ArgumentTypeError(
        "model: expected the path of a program or functions of a builder, found %r" % (model,)
    )


def _flags(named: Mapping[str, Flag]) -> List[str]:
    flags = []
    for name, value in named.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(flag if value else flag + "=false")
        elif isinstance(value, (str, int, float)):
            flags += [flag, str(value)]
        else:
            for one in value or ():
                flags += [flag, one]
    return flags


def _diagnostics(text: str) -> List[str]:
    """Messages, each with the lines that belong to it."""
    starts = [
        match.start()
        for match in re.finditer(r"^\S.*?(?:error|warning): ", text, re.MULTILINE)
    ]
    starts = sorted({0, *starts})
    parts = [text[begin:end] for begin, end in zip(starts, [*starts[1:], len(text)])]
    return [part.strip() for part in parts if part.strip()]
