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
from typing import Any, Dict, Tuple, Type

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
