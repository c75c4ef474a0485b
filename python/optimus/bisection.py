# ===- bisection.py - The largest number that fits --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds the largest batch, by whatever says of one whether it fits."""

from typing import Callable


def largest(fits: Callable[[int], bool], unit: int) -> int:
    """The largest multiple of `unit` that fits, or 0. What fits does so with less."""
    good, bad = 0, unit
    while fits(bad):
        good, bad = bad, 2 * bad
    while bad - good > unit:
        middle = (good + bad) // 2 // unit * unit
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
