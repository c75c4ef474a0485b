# ===- meter.py - How far a preparation is --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Says how fast text is read, and how long the rest will take."""

import sys
import time
from typing import List, Optional

from optimus import output

SECONDS = 0.5
"""Between two states of a line in a terminal."""
SECONDS_BETWEEN_LINES = 30.0
"""Elsewhere."""


class Meter:
    """Of inputs of these sizes, in bytes on the disk."""

    def __init__(self, sizes: List[Optional[int]]):
        self._sizes = sizes
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._first: Optional[int] = None
        self._read = 0
        self._begun = self._shown = time.monotonic()
        self._has_line = False

    def read(self, number: int, consumed: int) -> None:
        """So much of an input, and all of those before it."""
        self._read = sum(size or 0 for size in self._sizes[:number]) + consumed
        if self._first is None:
            self._first = self._read

    def show(self, tokens: int) -> None:
        now = time.monotonic()
        pause = SECONDS if self._is_terminal else SECONDS_BETWEEN_LINES
        if now - self._shown < pause:
            return
        self._shown = now
        line = self._line(tokens, now - self._begun)
        if self._is_terminal:
            sys.stderr.write("\r%s\x1b[K" % line)
            sys.stderr.flush()
            self._has_line = True
        else:
            output.say(line)

    def _line(self, tokens: int, seconds: float) -> str:
        line = "%.1f million tokens" % (tokens / 1e6)
        rate = (self._read - (self._first or 0)) / seconds
        if None in self._sizes or rate <= 0:
            return line
        total = sum(size or 0 for size in self._sizes)
        left = (total - self._read) / rate
        share = 100 * self._read / max(total, 1)
        return "%3.0f %%, %s, %.1f MB/s, %s left" % (share, line, rate / 1e6, _time(left))

    def end(self) -> None:
        if self._has_line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _time(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return "%d:%02d:%02d" % (hours, minutes, seconds)
