# ===- locations.py - Where a program's operations come from ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""MLIR locations: the path of what is computed, and the builder's line."""

import contextlib
import os
import sys
from typing import Dict, Iterator, List, Optional, Tuple

from optimus.attributes import string_text

WRITERS = ("optimus.ir", "optimus.models.parts", __name__)
"""Modules whose lines are no builder's."""


class Locations:
    """The scopes that are open, and the locations used so far."""

    def __init__(self, beside: Optional["Locations"] = None):
        """Those of a module are numbered together."""
        self._scopes: List[str] = []
        self._numbers: Dict[str, int] = beside._numbers if beside else {}
        self._place: Optional[Tuple[str, int]] = None

    def are_beside(self, other: "Locations") -> bool:
        """Whether both are numbered together."""
        return self._numbers is other._numbers

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    @contextlib.contextmanager
    def at(self, file: str, line: int) -> Iterator[None]:
        """What is made inside is of this line of somebody else's, not the builder's."""
        before, self._place = self._place, (file, line)
        try:
            yield
        finally:
            self._place = before

    def path(self, name: str) -> str:
        return ".".join([*self._scopes, name])

    def text(self, path: str) -> str:
        """`path`, made by the line of a builder that is executed now."""
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__") in WRITERS and frame.f_back:
            frame = frame.f_back
        file, line = self._place or (frame.f_code.co_filename, frame.f_lineno)
        # Without folders, so that a program is the same wherever it is written.
        file = os.path.basename(file)
        at = "%s(%s:%d:0)" % (string_text(path), string_text(file), line)
        return "loc(#loc%d)" % self._numbers.setdefault(at, len(self._numbers))

    def lines(self) -> List[str]:
        """What `text` gave, written out; to follow the module."""
        return ["#loc%d = loc(%s)" % (i, at) for at, i in self._numbers.items()]
