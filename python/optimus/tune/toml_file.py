# ===- toml_file.py - Files that a user writes ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads TOML: specifications and pools."""

import re
import tomllib
from typing import Any, Dict, Iterable, Optional, Tuple, Type

from optimus import small_file
from optimus.tune import TuneError

MOST_BYTES = 1 << 20


def read(path: str, mistake: Type[TuneError] = TuneError) -> Tuple[str, Dict[str, Any]]:
    """The text, and what it says. Raises `mistake`."""
    try:
        data = small_file.read_or_wait(path, MOST_BYTES)
    except OSError as error:
        raise mistake("cannot read '%s': %s" % (path, error.strerror)) from None
    try:
        text = data.decode("utf-8")
        return text, tomllib.loads(text)
    except UnicodeDecodeError:
        raise mistake("%s: expected UTF-8" % path) from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = where[1] if where else str(text.count("\n") + 1)
        message = str(error)[: where.start()] if where else str(error)
        raise mistake("%s:%s: %s" % (path, line, message)) from None
    except RecursionError:
        raise mistake("%s: expected tables in fewer others" % path) from None


TEXT, TEXTS, NUMBER = "a text", "texts", "a number above 0"
WHOLE = "a whole " + NUMBER[2:]
"""What a setting may be."""


def read_only_table(
    path: str, name: str, fields: Iterable[str], types: Dict[str, str]
) -> Optional[Dict[str, Any]]:
    """The one table of a file, whose keys are among `fields`, whole numbers above 0 unless
    `types` say otherwise; None where it has no such table. Raises TuneError."""
    _, found = read(path)
    if name not in found:
        return None
    table = found[name]
    if len(found) > 1 or not isinstance(table, dict):
        raise TuneError("%s: expected one table, [%s], and no other beside it" % (path, name))
    for key in table:
        if key not in fields:
            raise TuneError(
                "%s: %s: expected one of %s, found %s"
                % (path, name, ", ".join(sorted(fields)), key)
            )
    for key, value in table.items():
        kind = types.get(key, WHOLE)
        if not _is_of(kind, value):
            raise TuneError(
                "%s: %s: %s: expected %s, found %s"
                % (path, name, key, kind, value)
            )
    return table


def _is_of(kind: str, value: Any) -> bool:
    if kind == TEXT:
        return isinstance(value, str) and value != ""
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    numbers = (int, float) if kind == NUMBER else int
    return isinstance(value, numbers) and not isinstance(value, bool) and value > 0
