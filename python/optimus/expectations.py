# ===- expectations.py - What a program must be ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checks of what a builder asks for."""

from typing import Sequence

from optimus import ProgramError
from optimus.values import Value


def expect(condition: bool, what: str, expected: str, found: object) -> None:
    """`what` names the parameter or operation, and what of it is meant."""
    if not condition:
        raise ProgramError("%s: expected %s, found %s" % (what, expected, found))


def expect_shape(what: str, value: Value, shape: Sequence[int]) -> None:
    expected = "the shape %s" % list(shape)
    expect(value.shape == tuple(shape), what, expected, list(value.shape))
