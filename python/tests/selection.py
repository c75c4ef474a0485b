# ===- selection.py - Which of many cases run each time -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Cases that always run, and those that only `scripts/test --long` runs.

A test that is marked `long` is left out unless pytest is given --long.
"""

import itertools
from typing import Iterable, List

import pytest


def flatten(case) -> tuple:
    return tuple(
        part for group in case for part in (group if isinstance(group, tuple) else (group,))
    )


def covering(*parameters: Iterable) -> List:
    """All combinations of the values of some parameters.

    Those that always run have every value of every parameter at least once, and
    pair them differently as they go on. Values that are tuples are parameters of
    their own: [("row:2,col:2", "summa"), ...] are a mesh and a strategy.
    """
    lists = [list(values) for values in parameters]
    longest = max(map(len, lists))
    chosen = {
        # Once around a list, its values are shifted against those of the others.
        tuple((i + (i // len(values) if len(values) < longest else 0)) % len(values) for values in lists)
        for i in range(longest)
    }
    cases = []
    for indices in itertools.product(*(range(len(values)) for values in lists)):
        marks = [] if indices in chosen else [pytest.mark.long]
        case = flatten(values[index] for values, index in zip(lists, indices))
        cases.append(pytest.param(*case, marks=marks))
    return cases
