# ===- python_file.py - Specifications in Python ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs a Python file for the tables that it leaves: dictionaries as TOML has them.

    sizes = [64 * count for count in range(1, 9)]
    model = {"name": "gpt2", "hidden": {"choice": sizes}}

A dictionary with a name of its own is a mistake, as an unknown table of TOML is; one that
helps begins with an underscore.
"""

import ast
import traceback
from typing import Any, Dict, Iterator, Tuple, Type

from optimus import small_file
from optimus.tune import TuneError
from optimus.tune.toml_file import MOST_BYTES

Lines = Dict[Tuple[str, ...], int]


def read(path: str, mistake: Type[TuneError]) -> Tuple[Lines, Dict[str, Any]]:
    """The line of each table and key that is written out, and the tables. Raises
    `mistake`."""
    try:
        data = small_file.read_or_wait(path, MOST_BYTES)
    except OSError as error:
        raise mistake("cannot read '%s': %s" % (path, error.strerror)) from None
    try:
        tree = ast.parse(data, path)
    except SyntaxError as error:
        raise mistake("%s:%d: %s" % (path, error.lineno or 1, error.msg)) from None
    except (ValueError, RecursionError) as error:
        raise mistake("%s: %s" % (path, error)) from None
    names: Dict[str, Any] = {"__name__": "__optimus_tune__", "__file__": path}
    try:
        exec(compile(tree, path, "exec"), names)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((each.lineno for each in frames[::-1] if each.filename == path), 1)
        what = type(error).__name__
        raise mistake("%s:%d: %s: %s" % (path, line, what, error)) from None
    found = {
        name: _plain(value)
        for name, value in names.items()
        if isinstance(value, dict) and not name.startswith("_")
    }
    return dict(_lines(tree)), found


def _plain(value: Any) -> Any:
    """As TOML has it: lists, and texts for keys."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(each) for each in value]
    return value


def _lines(tree: ast.Module) -> Iterator[Tuple[Tuple[str, ...], int]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                path = _path(target)
                if path:
                    yield path, statement.lineno
                    yield from _keys(statement.value, path)


def _path(target: ast.expr) -> Tuple[str, ...]:
    """Of `model["layers"]` model and layers; empty for what is no such name."""
    if isinstance(target, ast.Name):
        return (target.id,)
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        around = _path(target.value)
        return (*around, str(target.slice.value)) if around else ()
    return ()


def _keys(value: ast.expr, path: Tuple[str, ...]) -> Iterator[Tuple[Tuple[str, ...], int]]:
    """Of a dictionary that is written out, as {"name": …} or as dict(name=…)."""
    if isinstance(value, ast.Dict):
        pairs = [
            (key.value, key.lineno, inner)
            for key, inner in zip(value.keys, value.values)
            if isinstance(key, ast.Constant)
        ]
    elif isinstance(value, ast.Call):
        pairs = [(each.arg, each.lineno, each.value) for each in value.keywords if each.arg]
    else:
        return
    for name, line, inner in pairs:
        here = (*path, str(name))
        yield here, line
        yield from _keys(inner, here)
