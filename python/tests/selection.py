# ===- selection.py - Which of many cases run each time -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Cases for every run, cases in turn, and cases for `scripts/test --long` alone.

A test marked `long` is left out unless pytest is given --long. Of tests marked
`rotates` a run with --rotate, as that of `scripts/test`, takes a seventh. The commit
chooses it: a commit always runs the same ones, and a few commits run them all. Tests
marked `rotates("NAME")` have one turn together, for the sake of a dear fixture.

Cases of a test marked `variants` are one behaviour on several meshes, in several
families or over several transports: a run with --rotate takes at least one of them.
"""

import collections
import itertools
import subprocess
import zlib
from pathlib import Path
from typing import Iterable, List

import pytest

TURNS = 7


def turn_of_commit() -> int:
    """Which turn the checked-out commit has; 0 where there is no commit."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout.strip()
    return int(head, 16) % TURNS if head else 0


def out_of_turn(items: List[pytest.Item], turn: int) -> List[pytest.Item]:
    """The tests marked `rotates` or `variants` that are not of this turn. The cases of a
    test function go round; where they begin depends on its name."""
    functions = [item.nodeid.split("[")[0] for item in items]
    numbers_of_cases = collections.Counter(functions)
    seen: collections.Counter = collections.Counter()
    left_out = []
    for item, name in zip(items, functions):
        turns, number = TURNS, seen[name]
        seen[name] += 1
        if mark := item.get_closest_marker("rotates"):
            if mark.args:
                (name,), number = mark.args, 0
        elif item.get_closest_marker("variants"):
            turns = min(TURNS, numbers_of_cases[name])
        else:
            continue
        if (zlib.crc32(name.encode()) + number - turn) % turns != 0:
            left_out.append(item)
    return left_out


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
