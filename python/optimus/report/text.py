# ===- text.py - Numbers and tables for people ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Numbers and tables for people."""

from typing import Iterable, List, Sequence

BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
TIME_UNITS = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")]


def size(count: int) -> str:
    """Bytes, as `1.50 MiB`."""
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit + 1 < len(BYTE_UNITS):
        value, unit = value / 1024, unit + 1
    return "%s %s" % (_three_digits(value) if unit else "%d" % count, BYTE_UNITS[unit])


def time(nanoseconds: float) -> str:
    """Nanoseconds, as `1.50 ms`."""
    for scale, unit in TIME_UNITS:
        if abs(nanoseconds) >= scale:
            return "%s %s" % (_three_digits(nanoseconds / scale), unit)
    return "0"


def percent(part: float, whole: float) -> str:
    """A share, or a dash where there is nothing to share."""
    return "%.1f %%" % (100 * part / whole) if whole else "–"


def _three_digits(value: float) -> str:
    return "%.*f" % (2 if abs(value) < 10 else 1 if abs(value) < 100 else 0, value)


def count(number: int, one: str, many: str = "") -> str:
    """`1 step`, `2,000 steps`."""
    return "%s %s" % (format(number, ","), one if number == 1 else many or one + "s")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> List[str]:
    """Lines of columns; numbers to the right, words, which the header begins with a
    capital for, to the left."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    left = [name[:1].isupper() for name in header]
    return ["  " + _line(row, widths, left) for row in cells]


def _line(row: List[str], widths: List[int], left: List[bool]) -> str:
    parts = [
        cell.ljust(width) if to_left else cell.rjust(width)
        for cell, width, to_left in zip(row, widths, left)
    ]
    return "  ".join(parts).rstrip()
